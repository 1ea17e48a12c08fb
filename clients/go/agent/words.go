package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	counterd "example.org/counterd/clients/go"
)

// words is a JSON object: arguments, a value, an error, an event.
type words map[string]any

func text(value any) string {
	if value == nil {
		return ""
	}
	if bytes, ok := value.(map[string]any); ok {
		data, _ := hex.DecodeString(bytes["hex"].(string))
		return string(data)
	}
	return fmt.Sprint(value)
}

func texts(value any) (all []string) {
	for _, one := range value.([]any) {
		all = append(all, text(one))
	}
	return all
}

// options are those of a call, as the arguments say.
func options[T any](args words) (o T) {
	fill(&o, args)
	return o
}

// fill sets the fields of options as the arguments say. What the compiler refuses is Usage.
func fill(options any, args words) {
	given := words{}
	for key, value := range args {
		n, _ := value.(float64)
		switch key {
		case "timeout", "delay", "ttr", "grace", "connect_timeout", "io_timeout", "down_seconds", "idle_seconds":
			value = int64(n * 1e9)
			if key == "timeout" && n == 0 {
				given["nowait"] = true
			}
		case "workers", "queue", "count", "limit", "concurrency", "idle", "max_body":
			if n <= 0 { // Go's 0 is the default: -1 stands for 0, and -2 for -1
				value = n - 1
			}
		case "at":
			value = time.UnixMicro(int64(n * 1e6))
		case "root":
			at := time.UnixMicro(int64(value.([]any)[1].(float64) * 1e6))
			value = words{"signature": value.([]any)[0], "time": at}
		case "key":
			if value == "" { // Go's "" is none
				value = " "
			}
		case "body":
			value = []byte(text(value))
		case "binary", "jobs":
			value = text(value)
		}
		given[strings.NewReplacer("_seconds", "time", "_", "").Replace(key)] = value
	}
	line, _ := json.Marshal(given)
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	if _, isOpen := options.(*counterd.Options); isOpen {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(options); err != nil {
		panic(&counterd.Error{Kind: counterd.ErrUsage, Message: err.Error()})
	}
}

// shown is a value as JSON: a structure as its fields, "" as null.
func shown(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Ptr, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return shown(v.Elem())
	case reflect.String:
		if v.Len() == 0 {
			return nil
		} else if !utf8.ValidString(v.String()) {
			return words{"hex": hex.EncodeToString([]byte(v.String()))}
		}
	case reflect.Slice:
		if data, ok := v.Interface().([]byte); ok && data == nil {
			return nil
		} else if ok {
			return words{"hex": hex.EncodeToString(data)}
		}
		list := []any{}
		for i := 0; i < v.Len(); i++ {
			list = append(list, shown(v.Index(i)))
		}
		return list
	case reflect.Struct:
		found := words{}
		for i := 0; i < v.NumField(); i++ {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			value := shown(v.Field(i))
			if field.Name == "Fence" || field.Name == "Token" {
				value = fmt.Sprint(value)
			}
			if part, _ := value.(words); field.Anonymous {
				for key, value := range part {
					found[key] = value
				}
			} else {
				found[strings.ToLower(field.Name)] = value
			}
		}
		return found
	}
	return v.Interface()
}

func failed(err error) words {
	var e *counterd.Error
	switch {
	case err == nil:
		return words{}
	case errors.As(err, &e):
		return words{"error": e.Kind.Error(), "server": e.Server, "target": e.Target, "answer": e.Answer, "reason": e.Reason, "sent": e.Sent}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return words{"error": "Cancelled"}
	case err == errBoom:
		return words{"error": "Boom"}
	}
	return words{"error": "other", "text": err.Error()}
}
