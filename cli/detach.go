package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/berth-dev/berth/controlplane/home"
)

// progressFD, in the environment of a detached `up`, is the pipe to its parent. It is a
// descriptor of its own, not standard output: writing there after the parent has gone
// would kill the cluster.
const progressFD = "BERTH_PROGRESS_FD"

var errEndedEarly = errors.New("the cluster ended before it was ready")

func (o *upOptions) reporter() reporter {
	if fd, err := strconv.Atoi(os.Getenv(progressFD)); err == nil {
		return pipeReporter{f: os.NewFile(uintptr(fd), "progress")}
	}
	return newProgress(o.streams.Err)
}

// upDetached starts the same command as a process of its own session, shows its progress,
// and leaves it running once it is ready.
func upDetached(o *upOptions, dir home.Dir) error {
	if pid := dir.Holder(); pid != 0 {
		return fmt.Errorf("cluster %q already runs (process %d): `berth status` shows it, `berth down --name %s` stops it", o.name, pid, o.name)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	child := exec.Command(self, o.childArgs()...)
	child.Env = append(os.Environ(), progressFD+"=3")
	child.ExtraFiles = []*os.File{w}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return err
	}
	w.Close()
	return o.follow(child, r, dir)
}

// follow shows the child's progress. Ctrl-C meanwhile stops the child too: it is not ready
// and nobody was told of it.
func (o *upOptions) follow(child *exec.Cmd, r *os.File, dir home.Dir) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		child.Process.Signal(syscall.SIGTERM)
	}()
	p := newProgress(o.streams.Err)
	err := follow(r, p)
	if err != nil {
		p.end(err)
		child.Wait()
		if errors.Is(err, errEndedEarly) {
			err = fmt.Errorf("%w (log: %s)", err, dir.Log())
		}
		return err
	}
	p.ready(func(seconds float64) { o.printReady(dir, seconds) })
	return child.Process.Release()
}

func (o *upOptions) childArgs() []string {
	args := []string{
		"up", "--name", o.name, "--speed", fmt.Sprint(o.speed), "--api-port", fmt.Sprint(o.apiPort), "--default-scheduler", o.defaultScheduler,
		"--gang-grace", o.gangGrace.String(),
	}
	args = append(args, o.policy.args()...)
	if o.fleetGiven {
		args = append(args, "--fleet", o.fleet)
	}
	if o.data != "" {
		args = append(args, "--data", o.data)
	}
	for _, f := range []struct {
		flag string
		on   bool
	}{{"--ephemeral", o.ephemeral}, {"--cold", o.cold}, {"--merge-kubeconfig", o.merge}} {
		if f.on {
			args = append(args, f.flag)
		}
	}
	return args
}
