/*
 * top.c - `counterctl top`: polls the admin interface, and shows the view (view.c) with ncurses, or
 * prints it once.
 *
 * It restores the terminal at every exit, on all signals that end us, and in a crash as far as a
 * signal handler can. In the background it is stopped, and leaves the terminal to the shell.
 */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/http.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/view.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The number of names, of pools and of tubes to request without --limit. */
#define NAMES_ONCE  20
#define NAMES_WATCH 100

/* The width of a printed frame if nothing sets it. */
#define ONCE_WIDTH 80

/* The longest sleep: the clock must tick, and a resize may arrive between two looks. */
#define SLEEP_MAX_NS NS_PER_S

/* What to ask for. */
static const struct page {
    const char *path;
    const char *key;                               /* of the answer, for --json */
    enum { WITHOUT, WITH_LIMIT, WITH_ORDER } with; /* parameters */
} pages[] = {
    [ANSWER_STATS] = {"stats", "stats", WITHOUT},
    [ANSWER_HISTORY] = {"history?seconds=600", "history", WITHOUT}, /* the widest screen */
    [ANSWER_NAMES] = {"contended", "contended", WITH_ORDER},
    [ANSWER_POOLS] = {"pools", "pools", WITH_LIMIT},
    [ANSWER_TUBES] = {"tubes", "tubes", WITH_LIMIT},
    [ANSWER_CLUSTER] = {"cluster", "cluster", WITHOUT},
    [ANSWER_DETAIL] = {"names/", NULL, WITHOUT},
};

struct top {
    const struct options *options;
    struct loop *loop;
    struct timer *tick; /* next look */
    struct http *http;
    struct view view;
    struct frame frame;
    struct http_call calls[ANSWER_COUNT];
    bool is_asking;   /* calls are pending */
    bool is_wished;   /* ask again as soon as they are done */
    int64_t next_ns;  /* when to ask again */
    int64_t good_ns;  /* when all calls last succeeded; 0: never */
    enum by asked_by; /* the order of the pending request */
};

/* ---- requests -------------------------------------------------------------------------------- */

static bool are_calls_done(const struct top *top)
{
    for (size_t i = 0; i < ANSWER_COUNT; i++)
        if (top->calls[i].easy && !top->calls[i].is_done)
            return false;
    return true;
}

/* A call is done. In full screen go_on_asking handles it. */
static void call_done(void *owner)
{
    const struct top *top = owner;
    if (top->options->once && are_calls_done(top))
        loop_end(top->loop, STATUS_OK);
}

/* True for an answer that is needed now. */
static bool is_needed(const struct top *top, enum view_answer which)
{
    enum view_screen screen = top->view.screen;
    bool is_list = which == ANSWER_POOLS || which == ANSWER_TUBES;
    if (is_list)
        return top->options->once || which == (enum view_answer)(ANSWER_NAMES + screen);
    return which != ANSWER_DETAIL || screen == VIEW_DETAIL;
}

static void begin_calls(struct top *top)
{
    const struct view *view = &top->view;
    uint32_t limit = top->options->limit    ? top->options->limit
                     : view->is_interactive ? NAMES_WATCH
                                            : NAMES_ONCE;
    top->asked_by = view->by;
    for (int i = 0; i < ANSWER_COUNT; i++) {
        struct text path = {0};
        if (!is_needed(top, (enum view_answer)i))
            continue;
        text_addf(&path, "/api/v1/%s", pages[i].path);
        if (i == ANSWER_DETAIL)
            text_addf(&path, "%s", text_str(&view->selected_id));
        if (pages[i].with == WITH_ORDER)
            text_addf(&path, "?by=%s&limit=%u", by_words[view->by], limit);
        else if (pages[i].with == WITH_LIMIT)
            text_addf(&path, "?limit=%u", limit);
        http_begin(top->http, &top->calls[i], text_str(&path), false, call_done, top);
        text_free(&path);
    }
    top->is_asking = true;
    top->is_wished = false;
}

/* True for a good answer. "No such name" is one, too, and that a server knows no pools, tubes or
 * cluster. */
static bool is_good(const struct http_call *call, int which)
{
    if (!call->easy || (which >= ANSWER_POOLS && call->code == 404 && call->answer))
        return true;
    return http_status(call, false) == STATUS_OK;
}

/* Takes the answers if all are good; else notes why not. Returns the exit status. */
static enum status take_answers(struct top *top)
{
    struct view *view = &top->view;
    text_clear(&view->trouble);
    for (int i = 0; i < ANSWER_COUNT; i++) {
        if (is_good(&top->calls[i], i))
            continue;
        text_addf(&view->trouble, "%s", text_str(&top->calls[i].failure));
        return http_status(&top->calls[i], false);
    }
    for (int i = 0; i < ANSWER_COUNT; i++) {
        const struct http_call *call = &top->calls[i];
        if (call->easy && (i != ANSWER_DETAIL || view->screen == VIEW_DETAIL))
            view_take(view, (enum view_answer)i,
                      call->code == 404 ? NULL : json_incref(call->answer));
    }
    top->good_ns = clock_mono_ns();
    return STATUS_OK;
}

static void end_calls(struct top *top)
{
    for (size_t i = 0; i < ANSWER_COUNT; i++)
        if (top->calls[i].easy)
            http_call_free(&top->calls[i]);
    top->is_asking = false;
}

/* ---- once ------------------------------------------------------------------------------------ */

static bool is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0; /* NOLINT(concurrency-mt-unsafe) */
}

/* The width of a printed frame: the terminal's, $COLUMNS, or the default. */
static int once_width(void)
{
    struct winsize size;
    uint32_t columns;
    const char *text = getenv("COLUMNS"); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (text && parse_number(bytes_of(text), 20, FRAME_WIDTH_MAX, &columns))
        return (int)columns;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return ONCE_WIDTH;
}

static void print_once_json(const struct top *top)
{
    json_t *all = json_object(), *const *answers = top->view.answers;
    for (size_t i = 0; i < ANSWER_DETAIL; i++)
        if (answers[i] && (i != ANSWER_CLUSTER || json_is_true_at(answers[i], "enabled")))
            json_object_set_new(all, pages[i].key, json_incref(answers[i]));
    json_line(all);
}

static enum status show_once(struct top *top)
{
    begin_calls(top);
    loop_run(top->loop);
    enum status status = take_answers(top);
    if (status != STATUS_OK) {
        complain("admin interface at %s: %s", http_where(top->http), text_str(&top->view.trouble));
    } else if (top->options->json) {
        print_once_json(top);
    } else {
        frame_make(&top->frame, once_width(), view_rows(&top->view), is_utf8());
        view_draw(&top->view, &top->frame);
        frame_print(&top->frame, stdout);
    }
    return status;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

#define PAIR_ALERT 1
#define PAIR_BAR   2

static struct {
    bool is_ours; /* true in full screen */
    struct termios before;
    char restore[128]; /* bytes to write in a crash */
    size_t restore_len;
} terminal;

/* True unless the terminal belongs to another job of a shell. Async-signal-safe. */
static bool is_in_foreground(void)
{
    pid_t group = tcgetpgrp(STDIN_FILENO);
    return group < 0 || group == getpgrp();
}

/* Stops us, as the terminal would, while we are in the background, until a signal ends us. */
static void await_foreground(void)
{
    while (!is_in_foreground() && !signals_end_is_due())
        raise(SIGSTOP);
}

/* Async-signal-safe: restores what newterm has changed. The modes are those of the shell if we are
   in the background. */
static void restore_terminal(void)
{
    (void)!write(STDOUT_FILENO, terminal.restore, terminal.restore_len);
    if (is_in_foreground())
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
}

static void leave_screen(void)
{
    if (terminal.is_ours && !isendwin()) {
        if (is_in_foreground())
            endwin();
        else
            restore_terminal();
    }
    terminal.is_ours = false;
}

/* The handler of a signal that ends us without the loop. */
static void crash(int number)
{
    if (terminal.is_ours)
        restore_terminal();
    raise(number); /* the disposition is the default again */
}

/* Stores one of the terminal's strings for a crash. */
static void keep_sequence(const char *name)
{
    char copy[8];
    snprintf(copy, sizeof copy, "%s", name);
    const char *sequence = tigetstr(copy);
    if (!sequence || (intptr_t)sequence == -1)
        return;
    size_t len = strlen(sequence);
    if (len > sizeof terminal.restore - terminal.restore_len)
        return;
    memcpy(terminal.restore + terminal.restore_len, sequence, len);
    terminal.restore_len += len;
}

/* True for a signal that by default does not end a process, or can't be handled. */
static bool is_harmless(int number)
{
    static const int harmless[] = {SIGKILL,  SIGSTOP, SIGCHLD, SIGCONT, SIGURG,
                                   SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU};
    size_t i = 0;
    while (i < ARRAY_SIZE(harmless) && harmless[i] != number)
        i++;
    return i < ARRAY_SIZE(harmless);
}

/* Signals that signals.h does not read must not leave the terminal as it is. In the background, the
   terminal must not stop us: then no signal could end us. */
static void prepare_signals(void)
{
    keep_sequence("sgr0");
    keep_sequence("cnorm");
    keep_sequence("rmkx");
    keep_sequence("rmcup");
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction before, ours = {.sa_handler = crash, .sa_flags = (int)SA_RESETHAND};
        if (!is_harmless(number) && sigaction(number, NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL) /* otherwise a sanitizer handles it, or it is ignored */
            sigaction(number, &ours, NULL);
    }
    signal(SIGTSTP, SIG_DFL); /* removes the handler of ncurses; signals.h reads the signal */
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
}

/* Switches to full screen. Returns STATUS_OK, or prints why not. */
static enum status enter_screen(void)
{
    tcgetattr(STDIN_FILENO, &terminal.before);
    if (!newterm(NULL, stdout, stdin)) {
        const char *type = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe): one thread */
        return complain_as(
            STATUS_UNAVAILABLE,
            "top: unknown terminal type \"%s\" ($TERM); set TERM, or use --once, which needs "
            "none",
            type ? type : "");
    }
    terminal.is_ours = true;
    atexit(leave_screen);
    prepare_signals();
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    /* Some terminals send these for cursor keys, whatever terminfo says. */
    define_key("\033[A", KEY_UP);
    define_key("\033[B", KEY_DOWN);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        init_pair(PAIR_ALERT, COLOR_RED, -1);
        init_pair(PAIR_BAR, COLOR_CYAN, -1);
    }
    return STATUS_OK;
}

static attr_t attributes_of(unsigned look, short *pair_r)
{
    attr_t attributes = A_NORMAL;
    if (look & (LOOK_BOLD | LOOK_ALERT))
        attributes |= A_BOLD;
    if (look & LOOK_DIM)
        attributes |= A_DIM;
    if (look & LOOK_REVERSE)
        attributes |= A_REVERSE;
    *pair_r = 0;
    if (has_colors() && (look & LOOK_ALERT))
        *pair_r = PAIR_ALERT;
    else if (has_colors() && (look & LOOK_BAR))
        *pair_r = PAIR_BAR;
    return attributes;
}

static void show_frame(const struct frame *frame)
{
    for (int row = 0; row < frame->height; row++) {
        for (int column = 0; column < frame->width; column++) {
            const struct cell *cell =
                &frame->cells[(size_t)row * (size_t)frame->width + (size_t)column];
            if (!cell->character)
                continue;
            short pair;
            wchar_t text[] = {cell->character, L'\0'};
            cchar_t shown;
            attr_t attributes = attributes_of(cell->look, &pair);
            setcchar(&shown, text, attributes, pair, NULL);
            mvadd_wch(row, column, &shown);
        }
    }
    refresh();
}

static void draw(struct top *top)
{
    struct view *view = &top->view;
    view->age_seconds = (double)(clock_mono_ns() - top->good_ns) / (double)NS_PER_S;
    frame_make(&top->frame, COLS, LINES, is_utf8());
    view_draw(view, &top->frame);
    show_frame(&top->frame);
}

/* ---- watching -------------------------------------------------------------------------------- */

/* Translates a key of ncurses to one of view.h. */
static uint32_t key_of(int kind, wint_t key)
{
    if (kind != KEY_CODE_YES)
        return key == '\r' || key == '\n' ? KEY_OF_ENTER
               : key == 27                ? KEY_OF_ESCAPE
               : key == 127 || key == 8   ? KEY_OF_BACKSPACE
                                          : (uint32_t)key;
    static const uint32_t keys[][2] = {
        {KEY_UP, KEY_OF_UP},         {KEY_DOWN, KEY_OF_DOWN},
        {KEY_PPAGE, KEY_OF_PAGE_UP}, {KEY_NPAGE, KEY_OF_PAGE_DOWN},
        {KEY_HOME, KEY_OF_HOME},     {KEY_END, KEY_OF_END},
        {KEY_ENTER, KEY_OF_ENTER},   {KEY_BACKSPACE, KEY_OF_BACKSPACE}};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i][0] == key)
            return keys[i][1];
    return 0;
}

/* Handles the pressed keys. Returns false to quit. */
static bool take_keys(struct top *top)
{
    wint_t key;
    int kind;
    while ((kind = get_wch(&key)) != ERR) {
        if (kind == KEY_CODE_YES && key == KEY_RESIZE) {
            clear(); /* the terminal has mangled the old screen */
            continue;
        }
        uint32_t code = key_of(kind, key);
        enum view_wish wish = code ? view_key(&top->view, code, LINES) : WISH_NOTHING;
        if (wish == WISH_QUIT)
            return false;
        if (wish == WISH_FETCH)
            top->is_wished = true;
    }
    return true;
}

/* Gives the terminal back while the process is stopped, and takes it again afterwards. */
static void on_signal(void *owner, const struct signalfd_siginfo *taken)
{
    const struct top *top = owner;
    int number = (int)taken->ssi_signo;
    if (number != SIGTSTP && number != SIGCONT) {
        loop_end(top->loop, STATUS_SIGNAL + number);
        return;
    }
    if (number == SIGTSTP) {
        endwin();
        signals_stop();
    }
    await_foreground();
    if (is_in_foreground()) {
        reset_prog_mode(); /* after a STOP the shell has set its own */
        clearok(curscr, TRUE);
        refresh(); /* back to full screen */
    }
}

/* Only wakes the loop; look_at_all reads the keys. */
static void on_input(void *owner, short revents)
{
    const struct top *top = owner;
    if (revents & (POLLHUP | POLLERR | POLLNVAL)) /* the terminal is gone */
        loop_end(top->loop, STATUS_SIGNAL + SIGHUP);
}

/* Asks again when it is time, and takes finished answers. */
static void go_on_asking(struct top *top)
{
    int64_t now = clock_mono_ns();
    if (top->is_asking && are_calls_done(top)) {
        bool is_stale = top->asked_by != top->view.by;
        take_answers(top);
        end_calls(top);
        top->next_ns = now + (int64_t)(top->view.interval_seconds * (double)NS_PER_S);
        top->is_wished |= is_stale;
    }
    bool is_due = !top->view.is_paused && now >= top->next_ns;
    if (!top->is_asking && (is_due || top->is_wished))
        begin_calls(top);
}

/* Before each wait of the loop: takes answers, asks, and draws. */
static void look_at_all(void *owner)
{
    struct top *top = owner;
    if (!is_in_foreground())
        return; /* a signal is yet to end the loop; the terminal is the shell's */
    if (!take_keys(top)) {
        loop_end(top->loop, STATUS_OK);
        return;
    }
    go_on_asking(top);
    draw(top);
    bool is_idle = !top->is_asking && !top->view.is_paused;
    int64_t latest = clock_mono_ns() + SLEEP_MAX_NS;
    timer_set(top->loop, top->tick, is_idle && top->next_ns < latest ? top->next_ns : latest);
}

/* Runs full screen. Returns the exit status. */
static int watch(struct top *top)
{
    struct watch input = {.on_ready = on_input, .owner = top};
    struct timer tick = {0};
    top->tick = &tick;
    top->loop->before_wait = look_at_all;
    top->loop->owner = top;
    signals_handle(on_signal, top);
    watch_set(top->loop, &input, STDIN_FILENO, POLLIN);
    int status = loop_run(top->loop);
    watch_clear(top->loop, &input);
    timer_clear(top->loop, &tick);
    top->loop->before_wait = NULL;
    return status;
}

static int show_screen(struct top *top)
{
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return complain_as(
            STATUS_USAGE,
            "top: standard input and output must be a terminal; use --once to print one frame");
    int status = signals_begin(top->loop);
    if (status != STATUS_OK)
        return status;
    await_foreground();
    if (!is_in_foreground())
        return loop_run(top->loop); /* a signal ends us */
    status = (int)enter_screen();
    if (status == STATUS_OK) {
        status = watch(top);
        leave_screen();
    }
    return status;
}

int do_top(struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    struct top top = {.options = options, .loop = &invocation->loop};
    if (options->json && !options->once)
        return complain_as(STATUS_USAGE, "top: --json needs --once");
    if (options->filter && strlen(options->filter) > VIEW_FILTER_MAX)
        return complain_as(STATUS_USAGE, "top: --filter is longer than %d bytes", VIEW_FILTER_MAX);
    top.http = http_of(invocation);
    if (!top.http)
        return STATUS_USAGE;
    top.view.where = http_where(top.http);
    top.view.interval_seconds = (double)options->interval_ns / (double)NS_PER_S;
    top.view.by = (enum by)options->by;
    top.view.is_interactive = !options->once;
    snprintf(top.view.filter, sizeof top.view.filter, "%s", options->filter ? options->filter : "");
    int status = options->once ? (int)show_once(&top) : show_screen(&top);
    end_calls(&top);
    view_free(&top.view);
    frame_free(&top.frame);
    return status;
}
