package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/controlplane/home"
)

// progressFD, in the environment of a detached `up`, is the pipe to its parent. It is a
// descriptor of its own, not standard output: writing there after the parent has gone
// would kill the cluster.
const progressFD = "BERTH_PROGRESS_FD"

var errEndedEarly = errors.New("the cluster ended before it was ready")

// detachedChild says whether this process is the cluster of a detached `up`.
func detachedChild() bool { return os.Getenv(progressFD) != "" }

func (o *upOptions) reporter() reporter {
	if fd, err := strconv.Atoi(os.Getenv(progressFD)); err == nil {
		return pipeReporter{f: os.NewFile(uintptr(fd), "progress")}
	}
	return newProgress(o.streams.Err)
}

// upDetached starts the same command as a process of its own session, shows its progress,
// and leaves it running once it is ready.
func upDetached(o *upOptions, dir home.Dir) error {
	if r, err := dir.Load(); err == nil {
		if err := o.checkOwner(dir, r); err != nil {
			return err
		}
	}
	if pid := dir.Holder(); pid != 0 {
		return fmt.Errorf("cluster %q already runs (process %d): `berth status` shows it, `berth down --name %s` stops it", o.name, pid, o.name)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p := newProgress(o.streams.Err)
	if err := prepare(dir, p); err != nil {
		return err
	}
	stderr, err := openStderr(dir)
	if err != nil {
		return err
	}
	defer stderr.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	child := exec.Command(self, o.childArgs()...)
	child.Env = append(os.Environ(), progressFD+"=3")
	child.ExtraFiles = []*os.File{w}
	child.Stderr = stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	w.Close()
	return o.follow(child, r, dir, p)
}

// follow shows the child's progress. Ctrl-C meanwhile stops the child too: it is not ready
// and nobody was told of it.
func (o *upOptions) follow(child *exec.Cmd, r *os.File, dir home.Dir, p *progress) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		child.Process.Signal(syscall.SIGTERM)
	}()
	err := follow(r, p)
	if err != nil {
		p.end(err)
		child.Wait()
		if errors.Is(err, errEndedEarly) {
			fmt.Fprint(o.streams.Err, lastWords(dir.Stderr()))
			err = fmt.Errorf("%w (log: %s; what the process wrote itself: %s)", err, dir.Log(), dir.Stderr())
		}
		return err
	}
	o.page = p.link
	p.ready(func(seconds float64) { o.printReady(dir, seconds) })
	return child.Process.Release()
}

// openStderr opens the file for what the child writes on standard error: above all, what Go writes when it crashes. What
// the last one wrote is kept under another name until a later one writes something too.
func openStderr(dir home.Dir) (*os.File, error) {
	lock, err := dir.Lock() // nobody else is at it, and no cluster runs that would go on writing to the old file
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if info, err := os.Stat(dir.Stderr()); err == nil && info.Size() > 0 {
		if err := os.Rename(dir.Stderr(), dir.Stderr()+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(dir.Stderr(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
}

// Of what a crashed process wrote, lastLines are shown, and at most lastBytes are read: Go writes the stack of every
// goroutine, thousands of lines, after the one that failed.
const (
	lastLines = 20
	lastBytes = 1 << 20
)

// lastWords are the lines of a crash that say what went wrong: from the panic on, else the last ones.
func lastWords(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, lastBytes))
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.SplitAfter(strings.TrimRight(string(b), "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	first := slices.IndexFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") || strings.HasPrefix(l, "SIG")
	})
	if first < 0 {
		first = max(0, len(lines)-lastLines)
	}
	shown := lines[first:]
	if len(shown) > lastLines {
		shown = append(slices.Clone(shown[:lastLines]), "...\n")
	}
	return strings.Join(shown, "")
}

func (o *upOptions) childArgs() []string {
	args := []string{
		"up", "--name", o.name, "--speed", fmt.Sprint(o.speed), "--api-port", fmt.Sprint(o.apiPort), "--default-scheduler", o.defaultScheduler,
		"--gang-grace", o.gangGrace.String(), "--device-binding-timeout", o.deviceTimeout.String(),
	}
	args = append(args, o.policy.args()...)
	if len(o.dialects) > 0 {
		args = append(args, "--dialect", strings.Join(o.dialects, ","))
	}
	if o.fleetGiven {
		args = append(args, "--fleet", o.fleet)
	}
	if o.provisioner != "" {
		args = append(args, "--provision", o.provisioner, "--provisioning-requests", o.requests)
		if len(o.expanders) > 0 {
			args = append(args, "--expander", strings.Join(o.expanders, ","))
		}
		if o.nodeRepair {
			args = append(args, "--node-repair")
		}
	}
	if len(o.with) > 0 {
		args = append(args, "--with", strings.Join(o.with, ","))
	}
	if o.data != "" {
		args = append(args, "--data", o.data)
	}
	for _, f := range []struct {
		flag string
		on   bool
	}{{"--ephemeral", o.ephemeral}, {"--cold", o.cold}, {"--merge-kubeconfig", o.merge}, {"--without-scheduler", o.withoutScheduler}} {
		if f.on {
			args = append(args, f.flag)
		}
	}
	return args
}
