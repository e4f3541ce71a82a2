package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
)

// process is one instance of a container: what it was made from, and its main process.
type process struct {
	c      *container
	m      *Machine
	spec   *corev1.Container
	image  image
	argv   []string
	env    map[string]string
	gpus   []gpu.Device
	limits limits // of what it may use of them
	log    *journal
	net    *shell.Net // the pod's
	podIP  string
	mounts mounts
	role   device.Role // of the GPU stack; "": none

	// settle is how long it runs before it counts as started, in simulated time.
	settle time.Duration

	ctx  context.Context    // ends, with a shell signal as its cause, when the process must
	send func(shell.Signal) // ends ctx; called with Kill in the end
	done chan struct{}      // closed when it is over and its container knows

	startedAt metav1.Time
	effort    effort
	memory    atomic.Int64           // bytes that its program takes; 0: it does not say
	hooked    atomic.Bool            // the preStop hook was run
	oom       atomic.Bool            // it was killed for its memory
	broken    atomic.Pointer[string] // why a fault ended it, which it writes last; nil: none did

	stdin   io.Reader // nil: empty
	typing  *io.PipeWriter
	inside  func() *shell.Container // made on first use: most containers are never looked into
	entered atomic.Bool             // inside was made
	began   chan struct{}           // closed when process 1 is there
}

// prepare resolves all that a new instance needs. A missing ConfigMap, Secret or key is a failure.
func (c *container) prepare(ctx context.Context, m *Machine, im image) (*process, *failure) {
	w := c.w
	pod := withLimits(w.withAddresses(w.current()), m.Allocatable)
	p := &process{
		c: c, m: m, spec: c.spec, image: im, gpus: w.gpusOf(m, c.spec.Name),
		log: newJournal(w.k.logs), done: make(chan struct{}), began: make(chan struct{}),
		net: w.net, podIP: w.podIP, mounts: w.mounts,
	}
	p.limits = limitsOf(pod, c.spec.Name, m.Devices.PartsBy(), p.gpus)
	maps.Copy(p.limits, w.claimLimits[c.spec.Name])
	env, err := w.k.sources.environment(ctx, pod, cmp.Or(specOf(pod, c.name), c.spec), p.ownEnv(pod))
	if err != nil {
		c.event(corev1.EventTypeWarning, "Failed", "Error: %v", err)
		return nil, &failure{"CreateContainerConfigError", err.Error(), time.Now().Add(configRetry)}
	}
	p.env = env
	p.argv = conductOf(im).argv(expandAll(c.spec.Command, env), expandAll(c.spec.Args, env))
	p.ctx, p.send = shell.WithSignals(w.k.ctx)
	if stack, ok := stackRole(w, c); ok {
		p.role = stack
		if m.StartTime != nil && c.kind == mainContainer {
			p.settle = m.StartTime(stack)
		}
	}
	if c.spec.Stdin {
		p.stdin, p.typing = io.Pipe()
	}
	p.inside = sync.OnceValue(p.enter)
	return p, nil
}

// configRetry is how soon a container whose ConfigMap or Secret is missing is tried again.
const configRetry = 2 * time.Second

// stackRole is what the container does for the GPU stack, if its pod is of it and it runs the
// stack's program rather than some shell command.
func stackRole(w *worker, c *container) (device.Role, bool) {
	if !w.stack {
		return "", false
	}
	s, ok := device.StackPodOf(w.current())
	return s.Role, ok
}

// ownEnv is what the container has before the pod says anything: the runtime's and the device plugin's.
func (p *process) ownEnv(pod *corev1.Pod) map[string]string {
	env := map[string]string{
		"PATH":     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME": hostname(pod),
	}
	if len(p.gpus) > 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = visible(p.gpus)
	}
	if editionOf(p.m.Devices.PartsBy()) != nil || p.m.Devices.SharesGPUs() {
		p.limitEnv(env)
	}
	return env
}

func hostname(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return pod.Spec.NodeName
	}
	return cmp.Or(pod.Spec.Hostname, pod.Name)
}

// run is the main process from start to end.
func (p *process) run() {
	code := p.main()
	if why := p.broken.Load(); why != nil {
		fmt.Fprintln(p.log.writer(stderr), *why)
		code = 1
	}
	reason := ""
	if p.oom.Load() && code != 0 {
		reason = "OOMKilled"
	}
	p.leave()
	p.c.ended(p, code, reason)
	p.send(shell.Kill)
	if p.entered.Load() {
		p.inside().FS.Discard()
	}
	close(p.done)
}

// main runs what the container is for and returns its exit code. The command decides; what is not a
// command of the shell is a simulated program.
func (p *process) main() int {
	idle := conductOf(p.image).idle && len(p.spec.Command) == 0
	switch {
	case idle:
		<-p.ctx.Done()
		return exitOnSignal(p.ctx, 0)
	case p.role != "" && !p.isShell():
		return p.serveStack(p.ctx)
	case len(p.argv) == 0:
		return 0
	case p.c.kind == initContainer && !p.isShell():
		return 0
	case p.steered() && !p.isShell():
		return p.simulate(p.ctx, p.launch(p.argv, environ(p.env)), p.log.writer(stdout))
	case !p.isShell():
		return p.serve(p.ctx)
	}
	first := p.command(p.argv, p.stdin, p.log.writer(stdout), p.log.writer(stderr), p.spec.TTY)
	first.Started = func() { close(p.began) }
	first.OutOfMemory = func() { p.oom.Store(true) }
	return shell.Run(p.ctx, first)
}

// isShell says whether the command is one that the shell knows.
func (p *process) isShell() bool { return p.mayBeShell() && p.inside().Init == nil }

// mayBeShell is false where that is known without a look inside. An image's own entrypoint is never the
// shell's: only its name is known.
func (p *process) mayBeShell() bool {
	return len(p.argv) > 0 && !simulated(p.argv[0]) && !(p.role != "" && device.Program(p.spec.Image, path.Base(p.argv[0]))) && (len(p.spec.Command) > 0 || len(conductOf(p.image).entrypoint) == 0)
}

// exitOnSignal is the code of a process that ended because ctx did; onTerm is what it makes of SIGTERM.
func exitOnSignal(ctx context.Context, onTerm int) int {
	if errors.Is(context.Cause(ctx), shell.Terminate) {
		return onTerm
	}
	return 137
}

// signal sends SIGTERM or SIGKILL. A simulated program may ignore the first.
func (p *process) signal(sig shell.Signal) {
	if sig == shell.Terminate && p.c.w.spec.IgnoreTerm && p.steered() && !p.isShell() {
		return
	}
	p.send(sig)
}

// another is a process beside the container's own, which it does not overtake.
func (p *process) another(argv []string, in io.Reader, out, err io.Writer, tty bool) *shell.Process {
	if p.isShell() {
		select {
		case <-p.began:
		case <-p.ctx.Done():
		}
	}
	return p.command(argv, in, out, err, tty)
}

// command is a process inside the container.
func (p *process) command(argv []string, in io.Reader, out, err io.Writer, tty bool) *shell.Process {
	env := environ(p.env)
	if tty && p.env["TERM"] == "" {
		env = append(env, "TERM=xterm") // the runtime's doing
	}
	return &shell.Process{
		Args: argv, Env: env, Dir: cmp.Or(p.spec.WorkingDir, "/"),
		Stdin: in, Stdout: out, Stderr: err, TTY: tty, Container: p.inside(),
	}
}

// resourceHealth tells which devices the container has from the device plugin. The API server accepts a status only of resources
// that the container requests: parts that annotations ask for, and GPUs that HAMi's resources imply, have none.
func (p *process) resourceHealth() []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	for _, a := range p.m.Devices.Allocations(p.c.w.uid, p.spec.Name) {
		if _, requested := p.spec.Resources.Requests[corev1.ResourceName(a.Resource)]; !requested {
			continue
		}
		s := corev1.ResourceStatus{Name: corev1.ResourceName(a.Resource)}
		for _, d := range a.Devices {
			s.Resources = append(s.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(d.ID()), Health: corev1.ResourceHealthStatusHealthy})
		}
		all = append(all, s)
	}
	return all
}

// lastWords is the termination message: the file the container may write, or the end of its log if it
// failed and asked for that.
func (p *process) lastWords(code int) string {
	const limit, logLimit = 4096, 2048
	if p.entered.Load() {
		text, err := p.inside().FS.ReadHead(cmp.Or(p.spec.TerminationMessagePath, corev1.TerminationMessagePathDefault), limit)
		if err == nil && len(text) > 0 {
			return string(text)
		}
	}
	if code == 0 || p.spec.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	first, _ := p.log.span(time.Time{}, 80)
	lines, _, _ := p.log.since(first)
	var out strings.Builder
	for _, l := range lines {
		out.Write(l.text)
	}
	text := out.String()
	return text[max(0, len(text)-logLimit):]
}
