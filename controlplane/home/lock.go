package home

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is the hold of one process on a folder. The kernel lets go of it when the process
// ends, however it ends.
type Lock struct{ f *os.File }

// ErrInUse is a folder that another process holds.
var ErrInUse = errors.New("in use")

// Lock takes the folder for this process, making it where there is none.
func (d Dir) Lock() (*Lock, error) {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil, fmt.Errorf("data folder %s is %w by process %s: stop it with `berth down`, or use another --name", d.Path, ErrInUse, readPID(f))
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return nil, err
	}
	return &Lock{f: f}, nil
}

// flock tries for a moment: Holder, in another process, takes the lock for an instant.
func flock(f *os.File) error {
	for try := 0; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == 10 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Unlock lets go of the folder.
func (l *Lock) Unlock() error { return l.f.Close() }

// Holder is the process that holds the folder, 0 where nobody does.
func (d Dir) Holder() int {
	f, err := os.Open(d.lock())
	if err != nil {
		return 0
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return 0
	}
	pid, err := strconv.Atoi(readPID(f))
	if err != nil {
		return 0
	}
	return pid
}

func readPID(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	return strings.TrimSpace(string(b[:n]))
}
