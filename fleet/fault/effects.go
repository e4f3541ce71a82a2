package fault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// Effects is all that faults do to one node at a moment. The zero value, and nil where a pointer is asked for, is a node on
// which all is well. It is shared and never written after Plan.
type Effects struct {
	Down        bool // it has no power
	Partitioned bool // it runs, and neither reaches the API server nor is reached

	// Replaced is when the machine made way for a new one that boots badly; zero: it did not. The new one takes Slower longer
	// to register; it never registers, or registers and never gets ready.
	Replaced                   time.Time
	Slower                     time.Duration // simulated
	NeverRegisters, NeverReady bool

	NotReady     string // why the kubelet is not ready, in its words; "": it is
	DiskPressure bool
	// KubeletRestarting says that the kubelet is up again and its plugins have not registered yet.
	KubeletRestarting bool
	KubeletSince      time.Time

	Taints     []corev1.Taint
	Labels     map[string]string
	Cordon     bool
	Conditions []corev1.NodeCondition // type, status, reason and message

	Crashes      map[device.Role]Crash // pods of the GPU stack that fail
	FabricDown   bool                  // no CUDA program starts on GPUs that are joined by NVSwitches
	RegistryDown bool
	PullSlower   time.Duration // simulated
	NUMARefusal  bool          // the topology manager refuses pods that ask for GPUs
	PrepareFails bool          // the DRA driver hands out no devices
	NoHandlers   bool          // the container runtime knows no RuntimeClass
	Skew         time.Duration // of the node's clock, in wall time

	GPUs   map[int]gpu.Trouble // by position
	Kernel []Line              // of the kernel's log
}

// Crash is how a program of the GPU stack ends whenever it is started.
type Crash struct {
	Log string
}

// Line is one of a log.
type Line struct {
	At   time.Time
	Text string
}

// Defaults of what a spec leaves out.
const (
	startupTaint   = "startup-taint.cluster-autoscaler.kubernetes.io/gpu"
	readinessTaint = "readiness.k8s.io/gpu-stack"
	upgradeLabel   = "nvidia.com/gpu-driver-upgrade-state"

	slowBoot = 10 * time.Minute
	slowPull = 10 * time.Minute
	skew     = 10 * time.Minute
)

// add adds what one fault does. It returns after how much simulated time that changes by itself; 0: it does not.
func (e *Effects) add(h hit) (next time.Duration) {
	s := &h.fault.Spec
	switch s.Type {
	case v1alpha1.FaultXid, v1alpha1.FaultGPULost, v1alpha1.FaultECC, v1alpha1.FaultRowRemap,
		v1alpha1.FaultThermalThrottle, v1alpha1.FaultPowerBrake, v1alpha1.FaultNVLinkDown:
		for _, i := range h.gpus {
			e.trouble(h, i)
		}
	case v1alpha1.FaultFabricManagerDown:
		e.FabricDown = true
		e.log(h, "nvidia-nvswitch0: open (major=510)")
	case v1alpha1.FaultDriverCrash:
		e.crash(device.Driver, "Loading NVIDIA driver kernel modules...\n+ modprobe nvidia\nmodprobe: ERROR: could not insert 'nvidia': No such device\nStopping NVIDIA persistence daemon...\nUnloading NVIDIA driver kernel modules...")
		e.log(h, "NVRM: The NVIDIA probe routine failed for 1 device(s).")
	case v1alpha1.FaultPluginCrash:
		e.crash(device.Plugin, "Starting FS watcher for /var/lib/kubelet/device-plugins\nStarting OS watcher.\nStarting Plugins.\nLoading configuration.\nerror starting plugins: error getting plugins: unable to create cdi spec file: failed to get CDI spec: failed to initialize NVML: ERROR_UNKNOWN")
	case v1alpha1.FaultGFDFailure:
		e.crash(device.GFD, "Starting OS watcher.\nLoading configuration.\nunable to write labels: failed to create labeler: failed to initialize NVML: ERROR_UNKNOWN")
	case v1alpha1.FaultToolkitFailure:
		e.crash(device.Toolkit, "level=info msg=\"Starting nvidia-toolkit\"\nlevel=error msg=\"error running nvidia-toolkit: unable to setup runtime: unable to restart containerd: unable to dial: dial unix /runtime/sock-dir/containerd.sock: connect: connection refused\"")
	case v1alpha1.FaultDriverUpgrade:
		return e.upgrade(h)
	case v1alpha1.FaultKubeletRestart:
		e.KubeletRestarting, e.KubeletSince = true, h.since
	case v1alpha1.FaultNodeDown:
		e.Down = true
	case v1alpha1.FaultNodePartitioned:
		e.Partitioned = true
	case v1alpha1.FaultDiskPressure:
		e.DiskPressure = true
	case v1alpha1.FaultCNINotReady:
		e.NotReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	case v1alpha1.FaultStartupTaintStays:
		e.taint(cmp.Or(s.Taint, startupTaint), "true")
	case v1alpha1.FaultNodeReadinessTaint:
		e.taint(cmp.Or(s.Taint, readinessTaint), "pending")
	case v1alpha1.FaultBootSlow:
		e.replace(h)
		e.Slower = max(e.Slower, byOr(s, slowBoot))
	case v1alpha1.FaultBootFails:
		e.replace(h)
		e.NeverReady = true
		e.NotReady = "[container runtime is down, container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]"
	case v1alpha1.FaultBootNeverRegisters:
		e.replace(h)
		e.NeverRegisters = true
	case v1alpha1.FaultQuarantine:
		e.quarantine(s.Condition)
	case v1alpha1.FaultRegistryDown:
		e.RegistryDown = true
	case v1alpha1.FaultRegistrySlow:
		e.PullSlower = max(e.PullSlower, byOr(s, slowPull))
	case v1alpha1.FaultNUMARefusal:
		e.NUMARefusal = true
	case v1alpha1.FaultClaimPrepareFails:
		e.PrepareFails = true
	case v1alpha1.FaultRuntimeHandlerGone:
		e.NoHandlers = true
	case v1alpha1.FaultClockSkew:
		e.Skew += byOr(s, skew)
	}
	return 0
}

func byOr(s *v1alpha1.FaultSpec, otherwise time.Duration) time.Duration {
	if s.By == nil {
		return otherwise
	}
	return s.By.Duration
}

// trouble adds what the fault does to one GPU.
func (e *Effects) trouble(h hit, i int) {
	t := e.GPUs[i]
	xid := 0
	switch s := &h.fault.Spec; s.Type {
	case v1alpha1.FaultXid:
		if s.Xid != nil {
			xid = int(*s.Xid)
		}
		t.Dead = t.Dead || xid == 79
		t.Lost = t.Lost || xid == 79
	case v1alpha1.FaultGPULost:
		xid, t.Lost, t.Dead = 79, true, true
	case v1alpha1.FaultECC:
		xid, t.Dead = 48, true
		t.UncorrectedECC += 2
	case v1alpha1.FaultRowRemap:
		xid = 63
		t.RemappedRows++
		t.UncorrectedECC++
	case v1alpha1.FaultThermalThrottle:
		t.Thermal = true
	case v1alpha1.FaultPowerBrake:
		t.Brake = true
	case v1alpha1.FaultNVLinkDown:
		xid, t.Dead = 74, true
		t.LinkErrors += 1 + int(draw(h.fault, "links", h.node.Name)%9000)
	}
	if xid > 0 {
		t.Xid = xid
		bus := strings.ToLower(strings.TrimPrefix(h.node.GPUs[i].BusID, "0000"))
		bus, _, _ = strings.Cut(bus, ".")
		e.log(h, fmt.Sprintf("NVRM: Xid (PCI:%s): %d, pid='<unknown>', name=<unknown>, %s", bus, xid, gpu.XidText(xid)))
	}
	if e.GPUs == nil {
		e.GPUs = map[int]gpu.Trouble{}
	}
	e.GPUs[i] = t
}

func (e *Effects) crash(r device.Role, log string) {
	if e.Crashes == nil {
		e.Crashes = map[device.Role]Crash{}
	}
	e.Crashes[r] = Crash{log}
}

func (e *Effects) log(h hit, text string) {
	e.Kernel = append(e.Kernel, Line{h.since, text})
	slices.SortStableFunc(e.Kernel, func(a, b Line) int { return a.At.Compare(b.At) })
}

func (e *Effects) taint(key, value string) {
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(e.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
		e.Taints = append(e.Taints, t)
	}
}

func (e *Effects) replace(h hit) {
	if h.since.After(e.Replaced) {
		e.Replaced = h.since
	}
}

// quarantine is what a health system does to a node that it does not trust: it says so in a condition, and cordons it.
func (e *Effects) quarantine(c *v1alpha1.FaultCondition) {
	if c == nil {
		c = &v1alpha1.FaultCondition{Type: "GpuXidErrorWatch", Status: string(corev1.ConditionTrue)}
	}
	e.Cordon = e.Cordon || c.Cordon == nil || *c.Cordon
	next := corev1.NodeCondition{
		Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: cmp.Or(c.Reason, c.Type+"IsNotHealthy"),
		Message: "ErrorCode:79 GPU has fallen off the bus Recommended Action=RESTART_BM;",
	}
	if i := slices.IndexFunc(e.Conditions, func(o corev1.NodeCondition) bool { return o.Type == next.Type }); i >= 0 {
		e.Conditions[i] = next
		return
	}
	e.Conditions = append(e.Conditions, next)
}

// upgradeSteps are the states that the GPU Operator's upgrade controller takes a node through, and how long each lasts here.
var upgradeSteps = []struct {
	state string
	lasts time.Duration
}{
	{"upgrade-required", 5 * time.Second},
	{"cordon-required", 5 * time.Second},
	{"wait-for-jobs-required", 20 * time.Second},
	{"pod-deletion-required", 10 * time.Second},
	{"drain-required", 10 * time.Second},
	{"pod-restart-required", 3 * time.Minute},
	{"validation-required", 30 * time.Second},
	{"uncordon-required", 5 * time.Second},
	{"upgrade-done", 0},
}

func (e *Effects) upgrade(h hit) (next time.Duration) {
	state, left := h.fault.Spec.UpgradeState, h.lasted
	for _, step := range upgradeSteps {
		if h.fault.Spec.UpgradeState != "" {
			break
		}
		state = step.state
		if left < step.lasts {
			next = step.lasts - left
			break
		}
		left -= step.lasts
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	e.Labels[upgradeLabel] = state
	e.Cordon = e.Cordon || state != "upgrade-required" && state != "cordon-required" && state != "upgrade-done"
	if state == "pod-restart-required" || state == "upgrade-failed" {
		e.crash(device.Driver, "Unloading NVIDIA driver kernel modules...\nCould not unload NVIDIA driver kernel modules, driver is in use")
	}
	return next
}
