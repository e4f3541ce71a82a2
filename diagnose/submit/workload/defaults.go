package workload

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Default is one field of a pod that the API server fills in and that bears on where, when or whether the pod runs.
type Default struct {
	Field string
	fill  func(p *corev1.Pod, f *facts.Facts)
}

// Defaults are what the API server would do to a pod that is created: the defaults of the API, and its own admission. They
// are used where no API server can be asked. internal/conformance holds them against the API server's code.
var Defaults = []Default{
	{"spec.schedulerName", func(p *corev1.Pod, _ *facts.Facts) {
		if p.Spec.SchedulerName == "" {
			p.Spec.SchedulerName = corev1.DefaultSchedulerName
		}
	}},
	{"spec.restartPolicy", func(p *corev1.Pod, _ *facts.Facts) {
		if p.Spec.RestartPolicy == "" {
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		}
	}},
	{"spec.terminationGracePeriodSeconds", func(p *corev1.Pod, _ *facts.Facts) {
		if p.Spec.TerminationGracePeriodSeconds == nil {
			p.Spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
		}
	}},
	{"spec.containers[*].ports[*].hostPort of a pod in the host's network", hostPorts},
	{"spec.containers[*].ports[*].protocol", protocols},
	{"spec.containers[*].resources and spec.overhead in whole thousandths", wholeThousandths},
	{"spec.containers[*].resources.requests from limits", requestsFromLimits},
	{"spec.resources.limits of huge pages from those of containers", podLevelHugePages},
	{"spec.resources.requests from limits", podLevelRequests},
	{"spec.overhead, spec.nodeSelector and spec.tolerations from the RuntimeClass", runtimeClass},
	{"spec.containers[*].resources from the namespace's LimitRanges", limitRanges},
	{"spec.priority and spec.preemptionPolicy from the PriorityClass", priority},
	{"spec.tolerations of nodes that are not ready", toleratesShortly},
}

// Fill does to the pod what the API server would.
func Fill(p *corev1.Pod, f *facts.Facts) {
	for _, d := range Defaults {
		d.fill(p, f)
	}
}

// eachContainer calls for init containers and containers.
func eachContainer(p *corev1.Pod, do func(*corev1.Container)) {
	for i := range p.Spec.InitContainers {
		do(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		do(&p.Spec.Containers[i])
	}
}

func hostPorts(p *corev1.Pod, _ *facts.Facts) {
	if !p.Spec.HostNetwork {
		return
	}
	eachContainer(p, func(c *corev1.Container) {
		for i := range c.Ports {
			if c.Ports[i].HostPort == 0 {
				c.Ports[i].HostPort = c.Ports[i].ContainerPort
			}
		}
	})
}

func protocols(p *corev1.Pod, _ *facts.Facts) {
	eachContainer(p, func(c *corev1.Container) {
		for i := range c.Ports {
			if c.Ports[i].Protocol == "" {
				c.Ports[i].Protocol = corev1.ProtocolTCP
			}
		}
	})
}

// wholeThousandths rounds quantities up, as the API server does with what it stores.
func wholeThousandths(p *corev1.Pod, _ *facts.Facts) {
	round := func(lists ...corev1.ResourceList) {
		for _, list := range lists {
			//archtest:any-order each quantity by itself
			for name, q := range list {
				q.RoundUp(resource.Milli)
				list[name] = q
			}
		}
	}
	eachContainer(p, func(c *corev1.Container) { round(c.Resources.Requests, c.Resources.Limits) })
	round(p.Spec.Overhead)
	if p.Spec.Resources != nil {
		round(p.Spec.Resources.Requests, p.Spec.Resources.Limits)
	}
}

// requestsFromLimits gives a container that names a limit alone a request of the same.
func requestsFromLimits(p *corev1.Pod, _ *facts.Facts) {
	eachContainer(p, func(c *corev1.Container) {
		c.Resources.Requests = podspec.FillFrom(c.Resources.Requests, c.Resources.Limits)
	})
}

// podLevelHugePages gives a pod that names resources for itself the limits of huge pages that its containers have together.
func podLevelHugePages(p *corev1.Pod, _ *facts.Facts) {
	r := p.Spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	sums := podspec.ContainerLimits(p)
	for _, name := range podspec.Names(sums) {
		if _, requested := r.Requests[name]; strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !requested {
			r.Limits = podspec.FillFrom(r.Limits, corev1.ResourceList{name: sums[name]})
		}
	}
}

// runtimeClass is what the class costs, and where it is to be found. A class that does not exist gives nothing: the API server
// refuses such a pod.
func runtimeClass(p *corev1.Pod, f *facts.Facts) {
	if f == nil || p.Spec.RuntimeClassName == nil {
		return
	}
	i := slices.IndexFunc(f.RuntimeClasses, func(c *nodev1.RuntimeClass) bool { return c.Name == *p.Spec.RuntimeClassName })
	if i < 0 {
		return
	}
	class := f.RuntimeClasses[i]
	if class.Overhead != nil && p.Spec.Overhead == nil {
		p.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = make(map[string]string)
		}
		p.Spec.NodeSelector[key] = class.Scheduling.NodeSelector[key]
	}
	for _, t := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(have corev1.Toleration) bool { return have.MatchToleration(&t) }) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, t)
		}
	}
}

// podLevelRequests gives a pod that names limits for itself the requests that its containers have together, else the limits.
func podLevelRequests(p *corev1.Pod, _ *facts.Facts) {
	r := p.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	bare := p.DeepCopy()
	bare.Spec.Resources, bare.Spec.Overhead = nil, nil
	sums := podspec.TotalRequests(bare)
	for _, name := range podspec.Names(sums) {
		if podLevel(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) { // huge pages cannot be overcommitted
			r.Requests = podspec.FillFrom(r.Requests, corev1.ResourceList{name: sums[name]})
		}
	}
	for _, name := range podspec.Names(r.Limits) {
		if podLevel(name) {
			r.Requests = podspec.FillFrom(r.Requests, corev1.ResourceList{name: r.Limits[name]})
		}
	}
}

func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// limitRanges are the defaults that the namespace gives to containers that say nothing.
func limitRanges(p *corev1.Pod, f *facts.Facts) {
	if f == nil {
		return
	}
	ranges := slices.DeleteFunc(slices.Clone(f.LimitRanges), func(l *corev1.LimitRange) bool { return l.Namespace != p.Namespace })
	slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range ranges {
		for _, item := range l.Spec.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			// A range has defaults of its own: the maximum is the default limit, and that, or the minimum, the default request.
			limit := podspec.FillFrom(item.Default.DeepCopy(), item.Max)
			request := podspec.FillFrom(podspec.FillFrom(item.DefaultRequest.DeepCopy(), limit), item.Min)
			eachContainer(p, func(c *corev1.Container) {
				c.Resources.Limits = podspec.FillFrom(c.Resources.Limits, limit)
				c.Resources.Requests = podspec.FillFrom(c.Resources.Requests, request)
			})
		}
	}
}

// priority is that of the pod's class, or of the class that is everybody's default.
func priority(p *corev1.Pod, f *facts.Facts) {
	if p.Spec.Priority != nil {
		return
	}
	value, policy := priorityOf(p.Spec.PriorityClassName, f)
	p.Spec.Priority = &value
	if p.Spec.PreemptionPolicy == nil {
		p.Spec.PreemptionPolicy = &policy
	}
}

// priorityOf is what the class of the name gives its objects; "": the class that is everybody's default.
func priorityOf(class string, f *facts.Facts) (int32, corev1.PreemptionPolicy) {
	switch class {
	case "system-node-critical":
		return 2000001000, corev1.PreemptLowerPriority
	case "system-cluster-critical":
		return 2000000000, corev1.PreemptLowerPriority
	}
	if f == nil {
		return 0, corev1.PreemptLowerPriority
	}
	c := classOf(class, f.PriorityClasses)
	switch {
	case c == nil:
		return 0, corev1.PreemptLowerPriority
	case c.PreemptionPolicy == nil:
		return c.Value, corev1.PreemptLowerPriority
	}
	return c.Value, *c.PreemptionPolicy
}

// classOf is the class of the name or, where none is named, the lowest of those that are everybody's default; nil: none.
func classOf(name string, all []*schedulingv1.PriorityClass) (found *schedulingv1.PriorityClass) {
	for _, c := range all {
		switch {
		case name != "" && c.Name == name:
			return c
		case name == "" && c.GlobalDefault && (found == nil || c.Value < found.Value):
			found = c
		}
	}
	return found
}

// toleratesShortly is what every pod does when its node goes: it stays for five minutes.
func toleratesShortly(p *corev1.Pod, _ *facts.Facts) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
		}
	}
}

// TolerateDevices is the admission ExtendedResourceToleration, which not every API server has: a pod that asks for a
// device tolerates the taint of its name. Berth's own has it.
func TolerateDevices(p *corev1.Pod) {
	for _, name := range facts.ExtendedOf(p) {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == name && t.Operator == corev1.TolerationOpExists && t.Effect == ""
		}) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		}
	}
}

// FillClass does to the object what admission does by classes: a volume claim that names no class gets the one that is everybody's
// default, a PodGroup or a CompositePodGroup the priority of its PriorityClass.
func FillClass(o facts.Object, f *facts.Facts) {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		storageClass(o, f)
	case *schedulingv1beta1.PodGroup:
		groupPriority(&o.Spec.Priority, o.Spec.PriorityClassName, f)
	case *schedulingv1alpha3.CompositePodGroup:
		groupPriority(&o.Spec.Priority, o.Spec.PriorityClassName, f)
	}
}

func groupPriority(priority **int32, class string, f *facts.Facts) {
	if *priority == nil {
		value, _ := priorityOf(class, f)
		*priority = &value
	}
}

func storageClass(claim *corev1.PersistentVolumeClaim, f *facts.Facts) {
	if claim.Spec.StorageClassName != nil || claim.Annotations[corev1.BetaStorageClassAnnotation] != "" || claim.Spec.VolumeName != "" {
		return
	}
	for _, class := range f.StorageClasses {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			claim.Spec.StorageClassName = &class.Name
			return
		}
	}
}
