package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

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

	ctx  context.Context // the command's life
	mem  *budget.Scope   // what it holds; all of it is given back when it ends
	owed atomic.Int64    // work that is not paid for yet
}

func (s *session) newCall(ctx context.Context, cancel context.CancelCauseFunc, cmd *lang.Command) *call {
	c := &call{env: cmd.Env, dir: cmd.Dir, session: s, cmd: cmd, ctx: ctx, mem: s.memory.Sub()}
	if len(cmd.Args) > 0 {
		c.name, c.args = baseName(cmd.Args[0]), cmd.Args[1:]
	}
	c.stdin = paidReader{c, cmd.Stdin.Reader(ctx)}
	c.stdout = paid{c, cmd.Stdout, cancel}
	c.stderr = paid{c, cmd.Stderr, cancel}
	return c
}

// spend pays for n steps. Commands that work long without reading or writing call it every now and then: it is also
// where they notice that they are to end.
func (c *call) spend(n int) error { return c.session.Spend(c.ctx, n) }

// perStep is how many bytes of plain text a command handles in a step.
const perStep = 2 << 10

// work pays for n bytes of text handled beyond reading and writing them, or for what takes as long.
func (c *call) work(n int64) error {
	owed := c.owed.Add(n)
	if owed < perStep {
		return nil
	}
	c.owed.Add(-owed)
	return c.spend(int(min(owed/perStep, 1<<20)))
}

// paidReader is an input that is paid for, so that a command ends with its life wherever its input comes from.
type paidReader struct {
	c    *call
	from io.Reader
}

func (r paidReader) Read(b []byte) (int, error) {
	if err := context.Cause(r.c.ctx); err != nil {
		return 0, err
	}
	n, err := r.from.Read(b)
	if werr := r.c.work(int64(n)); err == nil {
		err = werr
	}
	return n, err
}

// pays makes the use of a file cost steps. It hides the file's other methods, which would not.
func (c *call) pays(f *vfs.File) payingFile { return payingFile{paidReader{c, f}, f} }

type payingFile struct {
	paidReader
	f *vfs.File
}

func (p payingFile) Write(b []byte) (int, error) {
	done := 0
	for first := true; first || done < len(b); first = false {
		piece := b[done:min(len(b), done+maxPiece)]
		if err := p.c.spend(1 + len(piece)>>12); err != nil {
			return done, err
		}
		n, err := p.f.Write(piece)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

func (p payingFile) Close() error { return p.f.Close() }

// entryCost is what an entry of a directory takes in a listing.
const entryCost = 512

// readDir lists a directory. done gives back what the list takes.
func (c *call) readDir(name string) (list []fs.DirEntry, done func(), err error) {
	n := int64(c.fs().Entries(name)) * entryCost
	if err := c.mem.Take(n); err != nil {
		return nil, nil, err
	}
	if err := c.work(n / 16); err != nil {
		return nil, nil, err
	}
	done = func() { c.mem.Give(n) }
	if list, err = c.fs().ReadDir(name); err != nil {
		done()
	}
	return list, done, err
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
		return c.pays(f), nil
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
		return c.pays(f), nil
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
	if errors.As(err, &sig) || errors.Is(err, fd.ErrBroken) || errors.Is(err, context.Canceled) || errors.Is(err, budget.ErrMemory) {
		return 1
	}
	return c.fail("%s: %s", name, lang.Reason(err))
}

// eachLine calls f with every line, without its newline; last says that it had none. The line is f's to keep, but
// not counted once f has returned.
func (c *call) eachLine(r io.Reader, f func(line string, last bool) error) error {
	in := c.mem.Lines(r, '\n')
	defer in.Close()
	for {
		line, err := in.Next()
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

// readAll reads everything. It counts until the command ends.
func (c *call) readAll(r io.Reader) ([]byte, error) {
	b := c.mem.Buffer()
	err := b.Fill(r)
	return b.Bytes(), err
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
