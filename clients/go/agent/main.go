// The agent of the stories for Go: makes the calls that come as JSON lines, and says what came of them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	counterd "example.org/counterd/clients/go"
)

var (
	lock    sync.Mutex                        // of what follows, and of stdout
	kept    = map[string]any{}                // what calls gave, by handle
	ends    = map[string]chan string{}        // how bodies that wait end
	running = map[string]context.CancelFunc{} // calls
)

func say(w words) {
	line, _ := json.Marshal(w)
	lock.Lock()
	defer lock.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func keep(handle string, value any) {
	lock.Lock()
	defer lock.Unlock()
	kept[handle] = value
}

func endsOf(handle string) chan string {
	lock.Lock()
	defer lock.Unlock()
	if ends[handle] == nil {
		ends[handle] = make(chan string, 100)
	}
	return ends[handle]
}

func open(handle string, args words) (err error) {
	url, _ := args["url"].(string)
	delete(args, "url")
	o := options[counterd.Options](args)
	o.OnEvent = func(e counterd.Event) {
		w := words{"event": e.Kind, "server": e.Server, "name": e.Name, "result": e.Result}
		if e.Result == "" {
			w["result"] = nil
		}
		w["error"] = failed(e.Err)["error"]
		say(w)
	}
	client, err := counterd.Open(url, &o)
	keep(handle, client)
	return err
}

func drop(handle string) {
	lock.Lock()
	for key := range kept {
		if key == handle || strings.HasPrefix(key, handle+".") {
			delete(kept, key)
		}
	}
	lock.Unlock()
	for i := 0; i < 3; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // for finalizers
	}
}

// call makes a call on a client, hold, job or worker.
func call(ctx context.Context, on any, do string, args words) (any, error) {
	name, tube := text(args["name"]), text(args["tube"])
	number := func(key string) int { n, _ := args[key].(float64); return int(n) }
	switch on := on.(type) {
	case *counterd.Client:
		switch do {
		case "lock":
			return on.Lock(ctx, name, options[counterd.LockOptions](args))
		case "units":
			return on.Units(ctx, name, number("count"), number("limit"))
		case "usage":
			return on.Usage(ctx, name)
		case "member":
			return on.Member(ctx, text(args["target"]), options[counterd.MemberOptions](args))
		case "put":
			return on.Put(ctx, tube, []byte(text(args["body"])), options[counterd.PutOptions](args))
		case "put_many":
			jobs := []counterd.NewJob{}
			for _, job := range args["jobs"].([]any) {
				jobs = append(jobs, options[counterd.NewJob](job.(map[string]any)))
			}
			return on.PutMany(ctx, tube, jobs)
		case "claim":
			return on.Claim(ctx, texts(args["tubes"]), options[counterd.ClaimOptions](args))
		case "tube":
			settings := map[string]string{}
			given, _ := args["settings"].(map[string]any)
			for key, value := range given {
				settings[key] = text(value)
			}
			return on.Tube(ctx, name, settings)
		case "ready":
			found, err := on.Ready(ctx, text(args["pattern"]), options[counterd.ReadyOptions](args))
			list := []any{}
			for _, one := range found {
				list = append(list, []any{one.Tube, one.Jobs})
			}
			return list, err
		case "list_jobs":
			jobs := []counterd.JobView{}
			each := func(job counterd.JobView) error { jobs = append(jobs, job); return nil }
			return jobs, on.ListJobs(ctx, tube, text(args["state"]), each)
		case "clear":
			return on.Clear(ctx, tube, text(args["state"]))
		case "delete":
			return nil, on.Delete(ctx, int64(number("id")))
		case "kick":
			return nil, on.Kick(ctx, int64(number("id")))
		case "close":
			return nil, on.Close()
		}
	case hold:
		switch {
		case do == "lost":
			return on.Err() != nil, nil
		case args["ok"] == false:
			return nil, on.Fail()
		}
		return nil, on.Release()
	case *counterd.Job:
		switch do {
		case "lost":
			return on.Lost(), nil
		case "ack":
			return nil, on.Ack()
		case "renew":
			return nil, on.Renew()
		case "bury":
			return nil, on.Bury()
		}
		seconds, _ := args["delay"].(float64)
		buried, err := on.Nack(time.Duration(seconds * 1e9))
		return words{"buried": buried}, err
	case *counterd.Worker:
		on.Stop()
	}
	return nil, nil
}

func result(ctx context.Context, do, handle, of string, args words) (value any, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *counterd.Error: // of options
			err = e
		default:
			panic(e)
		}
	}()
	lock.Lock()
	on := kept[of]
	lock.Unlock()
	switch do {
	case "open":
		return nil, open(handle, args)
	case "drop":
		drop(of)
	case "go":
		endsOf(of) <- text(args["end"])
	case "cancel":
		lock.Lock()
		running[of]()
		lock.Unlock()
	case "scope":
		return nil, scope(ctx, on, handle, args)
	case "worker":
		return worker(ctx, on.(*counterd.Client), handle, args)
	case "servers_for":
		return counterd.ServersFor(text(args["name"]), texts(args["servers"])), nil
	default:
		return call(ctx, on, do, args)
	}
	return nil, nil
}

func main() {
	say(words{"agent": "go", "can": []string{"later", "cancel", "told", "scope", "worker", "deadline"}})
	input := bufio.NewReader(os.Stdin)
	for {
		command := struct {
			ID         int
			Do, As, Of string
			Args       words
		}{Of: "client"}
		line, err := input.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &command) != nil {
			os.Exit(0)
		}
		ctx, cancel := context.WithCancel(context.Background())
		if seconds, ok := command.Args["deadline"].(float64); ok {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds*1e9))
		}
		lock.Lock()
		running[command.As] = cancel
		lock.Unlock()
		go func() {
			defer cancel()
			value, err := result(ctx, command.Do, command.As, command.Of, command.Args)
			answer := failed(err)
			if err == nil {
				if command.As != "" && value != nil {
					keep(command.As, value)
				}
				jobs, _ := value.([]*counterd.Job)
				for i, job := range jobs {
					keep(command.As+"."+strconv.Itoa(i), job)
				}
				answer = words{"value": shown(reflect.ValueOf(value))}
			}
			answer["id"] = command.ID
			say(answer)
		}()
	}
}
