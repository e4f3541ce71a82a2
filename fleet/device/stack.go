package device

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Role is what a pod of the GPU stack does for its node.
type Role string

const (
	Driver  Role = "driver"        // loads the kernel driver
	Toolkit Role = "toolkit"       // hooks the container runtime
	Plugin  Role = "device-plugin" // registers the GPUs with the kubelet
	GFD     Role = "gfd"           // labels the node
	DCGM    Role = "dcgm-exporter" // exports metrics
	DRA     Role = "dra-driver"    // offers the GPUs in ResourceSlices and prepares claims
	MIG     Role = "mig-manager"   // cuts the GPUs as the node's label says
	HAMi    Role = "hami-plugin"   // registers the GPUs with the kubelet in place of Plugin, and gives parts of them
	VGPU    Role = "vgpu-plugin"   // as HAMi: Volcano's, which has other names for everything

	HAMiDRA Role = "hami-dra-driver" // as DRA, and in its place: claims have shares of GPUs
	// Channels is the other half of NVIDIA's DRA driver: it offers the channels of compute domains and prepares claims for them. Where both
	// halves run in one pod, the pod is DRA.
	Channels Role = "compute-domain-driver"
	Domain   Role = "compute-domain" // the daemon of a ComputeDomain
)

// StackPod is a pod of the GPU stack as far as its node's devices depend on it.
type StackPod struct {
	Name      string // namespace/name
	Role      Role
	Ready     bool
	HostPaths []string          // host directories that the container sees at the same path
	Env       map[string]string // the container's literal environment
	ConfigMap string            // of a device plugin or GFD: where its configurations are, in the pod's namespace; empty: nowhere
	Labels    map[string]string // the pod's; read-only
	IP        string            // the pod's; "": it has none yet
}

// Namespace is the pod's.
func (p StackPod) Namespace() string {
	namespace, _, _ := strings.Cut(p.Name, "/")
	return namespace
}

// Where the kubelet and its plugins meet: it listens for device plugins in one directory, and looks
// for the sockets of DRA drivers in another, which lead to a third.
const (
	socketDir   = "/var/lib/kubelet/device-plugins"
	registryDir = "/var/lib/kubelet/plugins_registry"
	pluginsDir  = "/var/lib/kubelet/plugins"
)

// reachesKubelet says whether a device plugin can open the kubelet's registration socket.
func (p StackPod) reachesKubelet() bool { return p.sees(socketDir) }

// reachesRegistry says whether the kubelet can find the sockets that a DRA driver makes.
func (p StackPod) reachesRegistry() bool { return p.sees(registryDir) && p.sees(pluginsDir) }

// sees says whether the container has the host's directory, by itself or with one above it.
func (p StackPod) sees(want string) bool {
	return slices.ContainsFunc(p.HostPaths, func(dir string) bool {
		dir = path.Clean(dir)
		return dir == want || dir == "/" || strings.HasPrefix(want, dir+"/")
	})
}

// stack is the GPU stack of the node as of the last SetStack.
type stack struct {
	pods     []StackPod
	gfdSince time.Time // when GFD last wrote its labels; zero: no GFD is ready
}

// ready lists the ready pods of a role, in order of name.
func (s stack) ready(role Role) []StackPod {
	var out []StackPod
	for _, p := range s.pods {
		if p.Role == role && p.Ready {
			out = append(out, p)
		}
	}
	return out
}

func (s stack) has(role Role) bool {
	return slices.ContainsFunc(s.pods, func(p StackPod) bool { return p.Role == role })
}

// SetStack replaces the list of GPU-stack pods on the node. Order and repetition do not matter.
func (m *Manager) SetStack(pods []StackPod, now time.Time) {
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b StackPod) int { return strings.Compare(a.Name, b.Name) })

	m.mu.Lock()
	defer m.mu.Unlock()
	m.stack.pods = sorted
	m.stack.gfdSince = m.gfdSince(now)
	m.relist(now)
	m.dra.set(m.draServes(), now)
	m.channels.set(m.channelsServe(), now)
}

func (m *Manager) gfdSince(now time.Time) time.Time {
	if len(m.stack.ready(GFD)) == 0 || !m.driverReady() {
		return time.Time{}
	}
	if m.stack.gfdSince.IsZero() {
		return now
	}
	return m.stack.gfdSince
}

func (m *Manager) driverReady() bool {
	if m.cfg.Driver.Version == "" {
		return false
	}
	return m.cfg.HostDriver || len(m.stack.ready(Driver)) > 0
}

// pluginServes says whether a device plugin on this node is registered with the kubelet. A
// toolkit is needed only where one is deployed: an image with its own driver brings its own.
// It is needed to start: a plugin that is registered does not notice one that comes late.
func (m *Manager) pluginServes() bool {
	if m.cfg.Advertise == ByDRA || len(m.cfg.Devices) == 0 || !m.driverReady() {
		return false
	}
	if !m.connected() && m.stack.has(Toolkit) && len(m.stack.ready(Toolkit)) == 0 {
		return false
	}
	return m.partsPlugin() != "" || slices.ContainsFunc(m.stack.ready(Plugin), StackPod.reachesKubelet)
}
