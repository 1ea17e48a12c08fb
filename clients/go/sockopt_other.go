//go:build !linux

package counterd

import "syscall"

func tune(string, string, syscall.RawConn) error { return nil }

// isQuiet does not know: who asks reads for a moment.
func isQuiet(syscall.RawConn) bool { return false }
