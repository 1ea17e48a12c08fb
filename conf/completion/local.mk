# Bash looks for a file named like the program, zsh for that name with a "_" before it.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
if CLIENT
dist_bashcompletion_DATA = conf/completion/counterctl
dist_zshcompletion_DATA = conf/completion/_counterctl
else
EXTRA_DIST += conf/completion/counterctl conf/completion/_counterctl
endif
