package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// maxLine is the longest line a text command handles; longer ones end the command.
const maxLine = 1 << 20

//lint:ignore ST1005 users know it in these words
var errFD = errors.New("Bad file descriptor")

// call is a built-in command that runs.
type call struct {
	name string
	args []string // without the name; after parsing, without the options
	opts options
	env  []string
	dir  string

	stdin          io.Reader
	stdout, stderr io.Writer

	session *session
	proc    *process
	cmd     *lang.Command
}

func (s *session) newCall(ctx context.Context, cancel context.CancelCauseFunc, cmd *lang.Command) *call {
	c := &call{env: cmd.Env, dir: cmd.Dir, session: s, cmd: cmd}
	if len(cmd.Args) > 0 {
		c.name, c.args = baseName(cmd.Args[0]), cmd.Args[1:]
	}
	c.stdin = cmd.Stdin.Reader(ctx)
	c.stdout = paid{ctx, s, cmd.Stdout, cancel}
	c.stderr = paid{ctx, s, cmd.Stderr, cancel}
	return c
}

// baseName is the last element of a path, or all of it.
func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func (c *call) container() *Container { return c.session.container }

func (c *call) fs() *FS { return c.session.container.FS }

// path makes a name absolute.
func (c *call) path(name string) string { return lang.Abs(c.dir, name) }

// process is the call as a Program sees it.
func (c *call) process() *Process {
	return &Process{
		Args: c.cmd.Args, Env: c.env, Dir: c.dir, Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr,
		Container: c.container(), TTY: c.cmd.Stdout.TTY(),
	}
}

func (c *call) print(text string) {
	if text != "" {
		_, _ = io.WriteString(c.stdout, text)
	}
}

func (c *call) printErr(text string) { _, _ = io.WriteString(c.stderr, text) }

func (c *call) printf(format string, args ...any) { c.print(fmt.Sprintf(format, args...)) }

// errorf prints a message after the command's name.
func (c *call) errorf(format string, args ...any) {
	c.printErr(c.name + ": " + fmt.Sprintf(format, args...) + "\n")
}

// fail prints a message and is the status 1.
func (c *call) fail(format string, args ...any) int {
	c.errorf(format, args...)
	return 1
}

// usage is for calls with too few or too many arguments.
func (c *call) usage() int {
	cmd := c.session.commands[c.name]
	c.printErr("usage: " + cmd.name + " " + cmd.usage + "\n")
	return 1
}

// env1 is a variable of the call's environment.
func (c *call) env1(name string) string { return envValue(c.env, name) }

// open opens a file to read; "-" is standard input.
func (c *call) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.stdin), nil
	}
	f, err := c.fs().Open(c.path(name))
	if err != nil {
		return nil, err
	}
	n, ok := f.Descriptor()
	if !ok {
		return f, nil
	}
	f.Close()
	if n != 0 {
		return nil, errFD
	}
	return io.NopCloser(c.stdin), nil
}

// create opens a file to write, or the process's own output for the devices that stand for
// it.
func (c *call) create(name string, flag vfs.Flag) (io.WriteCloser, error) {
	f, err := c.fs().OpenFile(c.path(name), vfs.WriteOnly|vfs.Create|flag, 0o644)
	if err != nil {
		return nil, err
	}
	n, ok := f.Descriptor()
	if !ok {
		return f, nil
	}
	f.Close()
	if n == 2 {
		return nopCloser{c.stderr}, nil
	}
	return nopCloser{c.stdout}, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// inputs calls f for each file named by the arguments, or for standard input if there are
// none. It returns 1 if one could not be opened or f failed.
func (c *call) inputs(names []string, f func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	status := 0
	for _, name := range names {
		r, err := c.open(name)
		if err != nil {
			status = c.fail("can't open '%s': %s", name, lang.Reason(err))
			continue
		}
		err = f(name, r)
		r.Close()
		if err != nil {
			return c.broken(name, err)
		}
	}
	return status
}

// broken reports why reading or writing stopped; the end of the process is not worth a word.
func (c *call) broken(name string, err error) int {
	var sig Signal
	if errors.As(err, &sig) || errors.Is(err, fd.ErrBroken) || errors.Is(err, context.Canceled) {
		return 1
	}
	return c.fail("%s: %s", name, lang.Reason(err))
}

// eachLine calls f with every line, without its newline; last says that it had none.
func eachLine(r io.Reader, f func(line string, last bool) error) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadSlice('\n')
		var long []byte
		for err == bufio.ErrBufferFull && len(long) < maxLine {
			long = append(long, line...)
			line, err = in.ReadSlice('\n')
		}
		if long != nil {
			line = append(long, line...)
		}
		if err == bufio.ErrBufferFull {
			return errors.New("line too long")
		}
		if len(line) > 0 {
			text, hadNewline := strings.CutSuffix(string(line), "\n")
			if ferr := f(text, !hadNewline); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads everything, up to the size of a container's root.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, rootLimit+1))
	if err == nil && len(data) > rootLimit {
		err = errors.New("input too large")
	}
	return data, err
}

// exec runs another command with the call's streams, as a process of its own.
func (c *call) exec(ctx context.Context, args []string) int {
	cmd := *c.cmd
	cmd.Args, cmd.Env, cmd.Dir, cmd.PID = args, c.env, c.dir, 0
	cmd.Depth += 10
	return c.session.Exec(ctx, &cmd)
}

// become runs another command in place of this one.
func (c *call) become(ctx context.Context, args []string) int {
	cmd := *c.cmd
	cmd.Args, cmd.Env, cmd.Dir, cmd.PID = args, c.env, c.dir, c.proc.pid
	cmd.Depth += 10
	return c.session.Exec(ctx, &cmd)
}
