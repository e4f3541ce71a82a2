package kubelet

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/workload"
)

// simulatedPrograms are commands that are simulated wherever they are called, also in a shell script.
var simulatedPrograms = []string{
	"python", "python3", "torchrun", "mpirun", "mpiexec", "horovodrun", "deepspeed", "accelerate", "ray",
	"vllm", "tritonserver", "jupyter", "nsys", "all_reduce_perf", "tensorboard", "pip", "pip3", "conda", "uv", "java", "node", "perl", "ruby",
	"julia", "Rscript",
}

func simulated(argv0 string) bool {
	base := path.Base(argv0)
	for _, name := range simulatedPrograms {
		if base == name {
			return true
		}
	}
	return false
}

// steered says whether the pod's sim.berth.dev annotations are about this container: the first that
// asks for GPUs or claims devices, or the first main container of a pod where none does.
func (p *process) steered() bool {
	if p.c.kind != mainContainer {
		return false
	}
	containers := p.c.w.current().Spec.Containers
	for i := range containers {
		if c := &containers[i]; gpusWanted(c) > 0 || len(c.Resources.Claims) > 0 {
			return p.spec.Name == c.Name
		}
	}
	return p.spec.Name == containers[0].Name
}

// simulate is the simulated program: it listens on the declared ports, works as the annotations say, with the peers
// that they or its launch tell of, fails if its GPUs have less memory left than it takes, and is killed if it takes more
// memory than the container may have.
func (p *process) simulate(ctx context.Context, l workload.Launch, out io.Writer) int {
	w := p.c.w
	pod := w.current()
	spec, err := workload.ParseSpec(pod.Annotations)
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	p.memory.Store(spec.Memory)
	if limit := p.spec.Resources.Limits.Memory().Value(); limit > 0 && spec.Memory > limit {
		p.oom.Store(true)
		return 137
	}
	if short := w.host.allocateMemory(p, spec.GPUMemory, p.m.Devices.Sharing()); short != nil {
		fmt.Fprintln(out, short)
		return 1
	}
	defer w.host.freeMemory(p)
	if why := p.unusable(); why != "" {
		fmt.Fprintln(out, why)
		return 1
	}
	spec.GPURoom, spec.PeakFLOPS = p.gpuRoom()
	spec.MemoryRoom = p.spec.Resources.Limits.Memory().Value()
	if spec, err = spec.Joins(l); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	if spec.World > 0 && spec.Group == "" && metav1.GetControllerOf(pod) == nil {
		spec.Group = l.Meets()
	}
	if short := w.host.allocateMemory(p, spec.Cache(), p.m.Devices.Sharing()); short != nil {
		fmt.Fprintln(out, short)
		return 1
	}
	defer p.listenAfter(spec.Warmup, p.server(spec, l.Args))()
	code := w.k.workloads.Run(ctx, workload.IdentityOf(pod, spec), spec, out)
	p.programOver()
	if ctx.Err() != nil {
		return exitOnSignal(ctx, 143)
	}
	if code == 137 && spec.MemoryLeak > 0 {
		p.oom.Store(true)
	}
	return code
}

// gpuRoom is what the program may hold of each of its GPUs, in bytes, as of now: the least that any has left for it. flops is what
// they do together in a second at best.
func (p *process) gpuRoom() (bytes int64, flops float64) {
	h := p.c.w.host
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, name := range distinct(p.gpus) {
		d := p.gpus[indexOf(p.gpus, name)]
		room := memoryOf(d)
		if l := p.limits[name].memory; l > 0 {
			room = min(room, l)
		}
		others := int64(0)
		for who, n := range h.memory[name] {
			if who != p {
				others += n
			}
		}
		if room = min(room, memoryOf(d)-others); i == 0 || room < bytes {
			bytes = room
		}
		flops += d.Model.PeakFLOPS()
	}
	return bytes, flops
}

// serve is a simulated program that nobody steers: it answers on its ports until it is stopped.
func (p *process) serve(ctx context.Context) int {
	answer := http.Handler(http.HandlerFunc(p.answer))
	if tellsState(p.image) {
		fmt.Fprintln(p.log.writer(stdout), "simulated kube-state-metrics: the metrics of pods and nodes alone")
		answer = p.stateMetrics()
	}
	defer p.listen(answer)()
	<-ctx.Done()
	return exitOnSignal(ctx, 143)
}

// serveStack is a container of the GPU stack. What it does for the node follows from its state, in
// fleet/device; here it only takes its time.
func (p *process) serveStack(ctx context.Context) int {
	if p.c.kind == initContainer {
		return 0
	}
	out := p.log.writer(stdout)
	fmt.Fprintf(out, "simulated %s on node %s: starting\n", p.role, p.m.Name)
	if crash, fails := p.m.faults().Crashes[p.role]; fails {
		fmt.Fprintln(out, crash.Log)
		return 1
	}
	answer := http.Handler(http.HandlerFunc(p.answer))
	if p.role == device.DCGM {
		answer = p.exporter()
	}
	defer p.listen(answer)()
	if p.c.w.k.clock.Sleep(ctx, p.settle) == nil {
		fmt.Fprintf(out, "simulated %s on node %s: ready\n", p.role, p.m.Name)
	}
	<-ctx.Done()
	return exitOnSignal(ctx, 143)
}

// listen answers HTTP on the container's declared TCP ports, and on 80 for known web servers. A port that somebody else in
// the pod has is left to them. The returned function stops it and hangs up.
func (p *process) listen(answer http.Handler) (stop func()) {
	var ports []int
	if servesHTTP(p.image) && len(p.spec.Ports) == 0 {
		ports = append(ports, 80)
	}
	for _, port := range p.spec.Ports {
		if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
			ports = append(ports, int(port.ContainerPort))
		}
	}
	server := &http.Server{
		Handler: answer, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // the default is the host's standard error
	}
	for _, port := range ports {
		if l, err := p.net.Listen(port); err == nil {
			go server.Serve(l)
		}
	}
	return func() { server.Close() }
}

// listenAfter listens once a program has loaded what it needs: until then callers are refused, and it is not ready.
func (p *process) listenAfter(warmup time.Duration, answer http.Handler) (stop func()) {
	if warmup == 0 {
		return p.listen(answer)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.c.w.k.clock.Sleep(ctx, warmup) == nil {
			defer p.listen(answer)()
			<-ctx.Done()
		}
	}()
	return func() { cancel(); <-done }
}

// server answers as the program does; one that serves requests tells its figures too, as vLLM does.
func (p *process) server(spec workload.Spec, args []string) http.Handler {
	if spec.Requests == 0 {
		return http.HandlerFunc(p.answer)
	}
	model := p.spec.Name
	for i, arg := range args {
		if name, value, said := strings.Cut(arg, "="); name == "--model" || name == "--served-model-name" {
			if !said && i+1 < len(args) {
				value = args[i+1]
			}
			model = value
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", p.answer)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		pod := p.c.w.current()
		if s, ok := p.c.w.k.workloads.Serving(pod.Namespace + "/" + pod.Name); ok {
			s.WriteMetrics(w, model)
		}
	})
	return mux
}

// httpTimeout is how long a caller may take for its request, and for reading the answer.
const httpTimeout = 10 * time.Second

func (p *process) answer(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "%s\n", hostname(p.c.w.current()))
}

// programs are the commands that the container has besides the shell's own.
func (p *process) programs() map[string]shell.Program {
	all := make(map[string]shell.Program, len(simulatedPrograms)+4)
	for _, name := range simulatedPrograms {
		all[name] = p.program
	}
	if len(p.gpus) > 0 || p.role != "" {
		all["nvidia-smi"] = p.nvidiaSMI
	}
	if p.role != "" {
		all["dmesg"] = p.dmesg
		for _, name := range device.Programs(p.spec.Image) {
			all[name] = p.stackProgram
		}
	}
	all["nslookup"], all["getent"] = p.nslookup, p.getent
	return all
}

// stackProgram is a program of the GPU stack that a script starts, as some projects' own manifests do it.
func (p *process) stackProgram(ctx context.Context, sp *shell.Process) int {
	if ctx.Value(byHand{}) != nil {
		return onlyAsCommand(sp)
	}
	return p.serveStack(ctx)
}

// program is a simulated program called from a script. One that somebody calls by hand is not run: it
// would join its own pod's work a second time, and what it is asked to compute it cannot.
func (p *process) program(ctx context.Context, sp *shell.Process) int {
	if ctx.Value(byHand{}) != nil {
		return onlyAsCommand(sp)
	}
	if !p.steered() {
		return p.serve(ctx)
	}
	return p.simulate(ctx, p.launch(sp.Args, sp.Env), sp.Stdout)
}

func onlyAsCommand(sp *shell.Process) int {
	fmt.Fprintf(sp.Stderr, "%s: this program is simulated and runs only as the container's own command\n", path.Base(sp.Args[0]))
	return 1
}

// launch is how a program was started in the container; the last of two variables of a name counts.
func (p *process) launch(args, env []string) workload.Launch {
	values := make(map[string]string, len(env))
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return workload.Launch{Args: args, Env: func(name string) string { return values[name] }, GPUs: len(p.gpus)}
}

// byHand marks the context of what is run by exec, probes and hooks.
type byHand struct{}
