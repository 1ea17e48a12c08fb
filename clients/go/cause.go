//go:build go1.20

package counterd

import "context"

func withCause(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, cancel
}
