package counterd

import "syscall"

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT

// tune sets what TCP connections have: the end of a server that vanished is met within 25 s.
func tune(network, _ string, raw syscall.RawConn) (err error) {
	if network == "unix" {
		return nil
	}
	options := [][3]int{
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 10},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 5}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
		{syscall.IPPROTO_TCP, tcpUserTimeout, 25000},
	}
	_ = raw.Control(func(fd uintptr) {
		for _, o := range options {
			if err == nil {
				err = syscall.SetsockoptInt(int(fd), o[0], o[1], o[2])
			}
		}
	})
	return err
}

// isQuiet says that there is nothing to read, and no end. It never waits.
func (s *socket) isQuiet() bool {
	if s.look == nil {
		s.look = func(fd uintptr) {
			_, _, err := syscall.Recvfrom(int(fd), s.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			s.quiet = err == syscall.EAGAIN
		}
	}
	return s.raw.Control(s.look) == nil && s.quiet
}
