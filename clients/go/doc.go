// Package counterd is a client of counterd: locks, units of a limit, members of pools, and job queues.
//
// What a call gives is one object with one connection. When that connection ends, it is not yours any more, and the library
// says so: Hold.Context ends, and Hold.Err is ErrLost. The server then gives it to the next one. There is nothing to restore
// after a reconnect.
//
//	c, err := counterd.Open("counter://10.0.0.5", nil)
//	lock, err := c.Lock(ctx, "render:42", counterd.LockOptions{Workers: 2, Queue: 20, Timeout: 5 * time.Second})
//	if err == nil {
//		defer lock.Release()
//		render(lock.Context(ctx))
//	}
package counterd
