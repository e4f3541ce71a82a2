//go:build !linux

package intruder

import (
	"context"
	"errors"
)

// Sockets needs /proc.
func Sockets(int) ([]Socket, error) { return nil, errors.ErrUnsupported }

// Try needs Linux's credentials per thread.
func Try(context.Context, Socket, int) error { return errors.ErrUnsupported }
