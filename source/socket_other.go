//go:build !unix

package source

import "net"

func newSocket(c net.Conn) (socket, error) { return polledSocket{c}, nil }
