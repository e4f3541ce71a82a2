package gpustack

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

// WholeGPU is the resource that whole GPUs are counted as.
const WholeGPU corev1.ResourceName = "nvidia.com/gpu"

// migPrefix starts the resources that MIG instances are counted as: nvidia.com/mig-1g.10gb.
const migPrefix = "nvidia.com/mig-"

// Labels of nodes with GPUs: of Node Feature Discovery, of the GPU Operator and of GPU Feature Discovery.
const (
	LabelPresent  = "nvidia.com/gpu.present"
	LabelDeploy   = "nvidia.com/gpu.deploy." // before the name of an operand
	LabelOperands = LabelDeploy + "operands" // "false": none of them
	labelCount    = "nvidia.com/gpu.count"
	labelReplicas = "nvidia.com/gpu.replicas"
	LabelProduct  = "nvidia.com/gpu.product"
	LabelMIG      = "nvidia.com/mig.config"
	// LabelMIGStrategy is how parts are named: mixed gives each profile a resource, single calls them all nvidia.com/gpu.
	LabelMIGStrategy = "nvidia.com/mig.strategy"
	StrategySingle   = "single"
	LabelMIGState    = "nvidia.com/mig.config.state"
	LabelUpgrade     = "nvidia.com/gpu-driver-upgrade-state"
	labelDRA         = "nvidia.com/dra-kubelet-plugin"
)

// Role is what a DaemonSet of the GPU software does for its nodes, in words.
type Role string

const (
	RoleDriver    Role = "driver"
	RoleToolkit   Role = "container toolkit"
	RolePlugin    Role = "device plugin"
	RoleDiscovery Role = "feature discovery"
	RoleMIG       Role = "MIG manager"
	RoleFeatures  Role = "node feature discovery"
	RoleOther     Role = "other" // metrics, validation: nothing that nodes advertise depends on them
)

// Operand is the role in the labels nvidia.com/gpu.deploy.*.
var Operand = map[Role]string{RoleDriver: "driver", RoleToolkit: "container-toolkit", RolePlugin: "device-plugin", RoleDiscovery: "gpu-feature-discovery", RoleMIG: "mig-manager"}

// Stack is what the facts show of the GPU software, made once.
type Stack struct {
	Sets  map[Role][]*appsv1.DaemonSet
	Nodes map[string]*Node
	dra   map[string]bool  // nodes whose GPUs are offered in ResourceSlices
	pools map[string]int64 // the most GPUs that a node of the pool shows, by pool
	kin   map[string]*corev1.Node
	most  int64 // that any node shows

	startup []string             // keys of taints that NodePools and readiness rules declare
	States  map[string]NodeState // of all nodes
	Faults  map[string]Fault     // of those with GPUs
}

// Node is a node that has GPUs, or should have.
type Node struct {
	*corev1.Node
	Units int64  // of nvidia.com/gpu that it should offer, as whole GPUs or shares of them
	Says  string // who says so: "its label nvidia.com/gpu.count"; "": it is a guess
	Pods  map[Role][]*corev1.Pod
}

// Of is the GPU software as the facts show it.
func Of(f *facts.Facts) *Stack {
	return facts.Derive(f, makeStack)
}

// NodeNamed is the node with what is known of its GPUs; nil where it has none.
func NodeNamed(f *facts.Facts, name string) *Node { return Of(f).Nodes[name] }

func makeStack(f *facts.Facts) *Stack {
	s := &Stack{}
	s.Sets, s.Nodes = make(map[Role][]*appsv1.DaemonSet), make(map[string]*Node)
	s.dra, s.pools, s.kin = make(map[string]bool), make(map[string]int64), make(map[string]*corev1.Node)
	for _, d := range f.DaemonSets {
		if r := roleOfPod(d.Spec.Template.Labels, &d.Spec.Template.Spec); r != "" {
			s.Sets[r] = append(s.Sets[r], d)
		}
	}
	for _, sets := range s.Sets {
		slices.SortFunc(sets, func(a, b *appsv1.DaemonSet) int {
			return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
		})
	}
	for _, r := range f.ResourceSlices {
		// Other drivers of NVIDIA's offer network cards, and channels between GPUs that a device plugin counts.
		if r.Spec.Driver == "gpu.nvidia.com" {
			s.dra[ptr.Deref(r.Spec.NodeName, "")] = true
		}
	}
	for _, n := range f.Nodes {
		s.learn(n)
	}
	for _, n := range f.Nodes {
		if s.hasGPUs(f, n) {
			s.Nodes[n.Name] = s.describe(f, n)
		}
	}
	s.startup, s.States, s.Faults = declaredStartupTaints(f), make(map[string]NodeState, len(f.Nodes)), make(map[string]Fault)
	for _, n := range f.Nodes {
		s.States[n.Name] = s.stateOf(f, n)
		if g := s.Nodes[n.Name]; g != nil {
			s.Faults[n.Name] = s.faultOf(f, g)
		}
	}
	return s
}

// byClaim says whether the node's GPUs are offered in ResourceSlices, and not counted.
func (s *Stack) byClaim(n *corev1.Node) bool {
	return s.dra[n.Name] || n.Labels[labelDRA] == "true"
}

// learn notes what the node's pool is like.
func (s *Stack) learn(n *corev1.Node) {
	units, _ := shownUnits(n)
	if units == 0 {
		return
	}
	s.most = max(s.most, units)
	for _, pool := range poolsOf(n) {
		s.pools[pool] = max(s.pools[pool], units)
		if known := s.kin[pool]; n.Labels[LabelProduct] != "" && (known == nil || n.Name < known.Name) {
			s.kin[pool] = n
		}
	}
}

// poolsOf names what the node has in common with nodes of the same make, the closest first.
func poolsOf(n *corev1.Node) []string {
	var out []string
	for _, key := range append(slices.Clone(PoolLabels), corev1.LabelInstanceTypeStable) {
		if v := n.Labels[key]; v != "" {
			out = append(out, key+"="+v)
		}
	}
	return out
}

// hasGPUs says whether hardware, labels, status, its pool, its machine type or nodes of the same make show that the node has GPUs that containers
// are to use.
func (s *Stack) hasGPUs(f *facts.Facts, n *corev1.Node) bool {
	if strings.HasPrefix(n.Labels["nvidia.com/gpu.workload.config"], "vm-") {
		return false // kept for virtual machines
	}
	if n.Labels[LabelPresent] == "true" || n.Labels[LabelProduct] != "" || n.Labels["k8s.amazonaws.com/accelerator"] != "" || strings.HasPrefix(n.Labels["cloud.google.com/gke-accelerator"], "nvidia") {
		return true
	}
	for _, key := range []string{"pci-10de", "pci-0302_10de", "pci-0300_10de"} {
		if n.Labels["feature.node.kubernetes.io/"+key+".present"] == "true" {
			return true
		}
	}
	if units, _ := shownUnits(n); units > 0 || OffersMIG(n) {
		return true
	}
	if _, _, ok := hardware(f, n); ok {
		return true
	}
	return slices.ContainsFunc(poolsOf(n), func(pool string) bool { return s.pools[pool] > 0 })
}

func (s *Stack) describe(f *facts.Facts, n *corev1.Node) *Node {
	g := &Node{Node: n, Pods: make(map[Role][]*corev1.Pod)}
	g.Units, g.Says = s.expect(f, n)
	for _, p := range f.PodsOn(n.Name) {
		if r := roleOfPod(p.Labels, &p.Spec); r != "" && p.DeletionTimestamp == nil {
			g.Pods[r] = append(g.Pods[r], p)
		}
	}
	for _, pods := range g.Pods {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	}
	return g
}

// guess is how many GPUs a machine is taken to have of which nothing says it: the commonest size.
const guess = 8

// expect is how many GPUs the node should offer, and who says so.
func (s *Stack) expect(f *facts.Facts, n *corev1.Node) (units int64, says string) {
	if units, says = shownUnits(n); units > 0 {
		return units, says
	}
	if units, says, ok := hardware(f, n); ok && units > 0 {
		return units, says
	}
	for _, pool := range poolsOf(n) {
		if units := s.pools[pool]; units > 0 {
			return units, "other nodes of " + pool
		}
	}
	if s.most > 0 {
		return s.most, "other nodes of the cluster"
	}
	return guess, ""
}

// shownUnits is how many GPUs the node itself shows that it has.
func shownUnits(n *corev1.Node) (units int64, says string) {
	if count, err := strconv.ParseInt(n.Labels[labelCount], 10, 32); err == nil && count > 0 {
		if replicas, err := strconv.ParseInt(n.Labels[labelReplicas], 10, 32); err == nil && replicas > 1 && replicas < 1000 {
			count *= replicas
		}
		units, says = count, "its label "+labelCount
	}
	if c := n.Status.Capacity[WholeGPU]; c.Value() > units {
		units, says = c.Value(), "its capacity"
	}
	return units, says
}

// Offers is how much of the resource the node has for pods.
func Offers(n *corev1.Node, name corev1.ResourceName) int64 {
	q := n.Status.Allocatable[name]
	return q.Value()
}

// OffersMIG reports whether the node offers partitions of GPUs.
func OffersMIG(n *corev1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), migPrefix) && !q.IsZero() {
			return true
		}
	}
	return false
}

// Renamed is how many GPUs or shares of GPUs there are under a name of their own, as nvidia.com/gpu.shared of a plugin that renames what
// it shares, or the name of a model that is passed to virtual machines.
func Renamed(list corev1.ResourceList) (most int64) {
	//archtest:any-order the largest is the same in any
	for name, q := range list {
		if n := string(name); name != WholeGPU && strings.HasPrefix(n, "nvidia.com/") && !strings.HasPrefix(n, migPrefix) && !networkWords.MatchString(n) {
			most = max(most, q.Value())
		}
	}
	return most
}

// GPURequest is how much of the resource the pod asks for.
func GPURequest(p *corev1.Pod, name corev1.ResourceName) int64 {
	q := podspec.Requests(p)[name]
	return q.Value()
}

// WantsGPU says whether the pod asks for GPUs that a device plugin offers, whole or in parts.
func WantsGPU(p *corev1.Pod) bool {
	return slices.ContainsFunc(facts.ExtendedOf(p), func(name string) bool { return strings.HasPrefix(name, "nvidia.com/") })
}

// operands are the values of the labels app, app.kubernetes.io/component and kin by which pods of the GPU software can
// be told: as the GPU Operator, NVIDIA's charts and the clouds write them.
var operands = map[string]Role{
	"nvidia-driver-daemonset": RoleDriver, "nvidia-driver": RoleDriver, "nvidia-driver-installer": RoleDriver, "nvidia-vgpu-manager-daemonset": RoleOther,
	"nvidia-container-toolkit-daemonset": RoleToolkit, "nvidia-container-toolkit": RoleToolkit,
	"nvidia-device-plugin-daemonset": RolePlugin, "nvidia-device-plugin": RolePlugin, "nvidia-device-plugin-ds": RolePlugin, "nvidia-gpu-device-plugin": RolePlugin,
	"gpu-feature-discovery": RoleDiscovery, "nvidia-mig-manager": RoleMIG, "mig-manager": RoleMIG,
	"nvidia-dcgm": RoleOther, "nvidia-dcgm-exporter": RoleOther, "nvidia-operator-validator": RoleOther, "nvidia-node-status-exporter": RoleOther,
	"nvidia-device-plugin-mps-control-daemon": RoleOther,
}

// stackImages are the last parts of the names of images of the GPU software, for pods without such labels.
var stackImages = map[string]Role{
	"container-toolkit": RoleToolkit, "nvidia-container-toolkit": RoleToolkit, "nvidia-driver": RoleDriver, "k8s-device-plugin": RolePlugin,
	"nvidia-device-plugin": RolePlugin, "nvidia-gpu-device-plugin": RolePlugin, "gpu-feature-discovery": RoleDiscovery, "k8s-mig-manager": RoleMIG, "dcgm-exporter": RoleOther,
}

// roleOfPod says what a pod does for the GPUs of its node; "": nothing.
func roleOfPod(labels map[string]string, spec *corev1.PodSpec) Role {
	for _, key := range []string{"app", "app.kubernetes.io/component", "k8s-app", "name", "app.kubernetes.io/name"} {
		r, ok := operands[labels[key]]
		if ok && !(key == "app.kubernetes.io/name" && otherProgram(spec)) {
			return r
		}
	}
	for i := range spec.Containers {
		image := path.Base(spec.Containers[i].Image)
		image, _, _ = strings.Cut(image, "@")
		image, _, _ = strings.Cut(image, ":")
		if r, ok := stackImages[image]; ok {
			if r == RolePlugin && Runs(&spec.Containers[i], "gpu-feature-discovery") {
				return RoleDiscovery
			}
			return r
		}
		if image == "node-feature-discovery" && Runs(&spec.Containers[i], "nfd-worker") || image == "nfd-worker" { // the master of it is on no node in particular
			return RoleFeatures
		}
	}
	return ""
}

// otherProgram tells the pods of the device plugin's chart apart, which share one name and one image.
func otherProgram(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return Runs(&c, "gpu-feature-discovery") || Runs(&c, "mps-control-daemon")
	})
}

// Runs reports whether the container runs the program.
func Runs(c *corev1.Container, program string) bool {
	return slices.ContainsFunc(append(slices.Clone(c.Command), c.Name), func(word string) bool { return strings.HasPrefix(path.Base(word), program) })
}

// serves says whether the pod is ready.
func serves(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Ready returns the ready pods of the role on the node.
func (g *Node) Ready(r Role) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(g.Pods[r]), func(p *corev1.Pod) bool { return !serves(p) })
}

// Unready returns the first pod of the role on the node that is not ready, nil where there is none.
func (g *Node) Unready(r Role) *corev1.Pod {
	for _, p := range g.Pods[r] {
		if !serves(p) {
			return p
		}
	}
	return nil
}

// Trouble says what keeps a pod from being ready, in words.
func Trouble(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			if s.RestartCount > 1 {
				return fmt.Sprintf("%s after %s", w.Reason, wording.Number(s.RestartCount, "restart"))
			}
			return w.Reason
		}
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("%s with exit code %d", t.Reason, t.ExitCode)
		}
	}
	if p.Status.Phase == corev1.PodPending {
		return "Pending"
	}
	return "not ready"
}

// PluginSockets is where the kubelet listens for device plugins.
const PluginSockets = "/var/lib/kubelet/device-plugins"

// MountsSockets says whether a container of the pod sees the kubelet's folder for device plugins.
func MountsSockets(spec *corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.HostPath == nil || !HoldsDir(v.HostPath.Path, PluginSockets) {
			continue
		}
		for i := range spec.Containers {
			if slices.ContainsFunc(spec.Containers[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == v.Name && HoldsDir(m.MountPath, PluginSockets)
			}) {
				return true
			}
		}
	}
	return false
}

// HoldsDir says whether the folder is the given one or has it inside.
func HoldsDir(dir, inside string) bool {
	dir = path.Clean(dir)
	return dir == inside || dir == "/" || strings.HasPrefix(inside, dir+"/")
}

// Policies are the GPU Operator's ClusterPolicies.
func Policies(f *facts.Facts) []*unstructured.Unstructured {
	return f.Foreign["ClusterPolicy.nvidia.com"]
}

// OperatorSays is what the GPU Operator says is wrong, by its conditions or, of releases without them, by its state, or that it does not run;
// "" where it is content or says nothing.
func OperatorSays(f *facts.Facts) (reason, message string, e facts.Evidence) {
	for _, p := range Policies(f) {
		for _, kind := range []string{"Error", "Ready"} {
			s := dialect.ConditionOf(p, kind)
			if s == nil || (s.Status == "True") == (kind == "Ready") {
				continue
			}
			return s.Reason, s.Message, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.conditions[type=" + kind + "].reason", Value: s.Reason}
		}
		if state := dialect.Text(p.Object, "status", "state"); strings.EqualFold(state, "notReady") && dialect.ConditionOf(p, "Ready") == nil {
			return state, "", facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.state", Value: state}
		}
	}
	if d := operatorDown(f); d != nil {
		reason = fmt.Sprintf("Deployment %s/%s has no pod that is available", d.Namespace, d.Name)
		e = facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: "0"}
		if ptr.Deref(d.Spec.Replicas, 1) == 0 {
			reason = fmt.Sprintf("Deployment %s/%s is scaled to 0", d.Namespace, d.Name)
			e.Field = "spec.replicas"
		}
	}
	return reason, "", e
}

// operatorDown is the GPU Operator's own Deployment where none of its pods is available: then new nodes are not labelled, and nothing installs what they
// lack. What runs already goes on.
func operatorDown(f *facts.Facts) *appsv1.Deployment {
	for _, d := range f.Deployments {
		is := d.Labels["app"] == "gpu-operator" || d.Labels["app.kubernetes.io/component"] == "gpu-operator" || strings.HasPrefix(d.Name, "gpu-operator") && !strings.Contains(d.Name, "feature-discovery")
		if is && d.Status.AvailableReplicas == 0 && f.At.Sub(d.CreationTimestamp.Time) > Settling {
			return d
		}
	}
	return nil
}

// driverByOperator says whether the driver is a DaemonSet's to install, and not part of machine images.
func driverByOperator(f *facts.Facts) bool {
	for _, p := range Policies(f) {
		if enabled, ok, _ := unstructured.NestedBool(p.Object, "spec", "driver", "enabled"); ok && !enabled {
			return false
		}
	}
	return true
}
