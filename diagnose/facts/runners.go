package facts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

// A scheduler is what serves a schedulerName, whatever its Deployment is called. What serves one says so on its command line,
// in its environment, in the profiles of its configuration, in its labels, or in the events that it has written.

// runner is a workload that runs schedulers.
type runner struct {
	Object
	template  *corev1.PodTemplateSpec
	available int32
	field     string   // that says how many pods are available
	names     []string // the schedulerNames that it says it serves
	key       string   // of a pod without a controller: what it runs
	quiet     bool     // it is a scheduler with a configuration that was not read: it may serve any name
}

// schedulers is what the facts show of all schedulers. It was so before edits.
type schedulers struct {
	heard   map[string]time.Time // when each last said something of a pod, by name
	runners []runner             // all workloads that may run one, by namespace and name
	writers map[string]string    // the pods that have written events as schedulers, by schedulerName
}

func (f *Facts) schedulers() *schedulers {
	if f.known == nil {
		f.known = &schedulers{heard: f.hear(), runners: f.findRunners(), writers: f.findWriters()}
	}
	return f.known
}

func (f *Facts) findRunners() (out []runner) {
	add := func(o Object, t *corev1.PodTemplateSpec, available int32, field string) {
		r := runner{Object: o, template: t, available: available, field: field, names: schedulerNames(t)}
		if configured(t) {
			profiles := f.profiles(o.GetNamespace(), t)
			r.quiet = len(r.names)+len(profiles) == 0
			r.names = append(r.names, profiles...)
		}
		out = append(out, r)
	}
	for _, d := range f.Deployments {
		add(d, &d.Spec.Template, d.Status.AvailableReplicas, "status.availableReplicas")
	}
	for _, s := range f.StatefulSets {
		add(s, &s.Spec.Template, s.Status.AvailableReplicas, "status.availableReplicas")
	}
	for _, d := range f.DaemonSets {
		add(d, &d.Spec.Template, d.Status.NumberAvailable, "status.numberAvailable")
	}
	same := make(map[string]bool) // a control plane of several hosts runs each of its parts several times
	for _, p := range f.Pods {
		t := &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		if bare := len(p.OwnerReferences) == 0 || p.OwnerReferences[0].Kind == "Node"; !bare || Ended(p) || len(schedulerNames(t)) == 0 && !configured(t) {
			continue
		}
		ready := int32(0)
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			ready = 1
		}
		key := ""
		for _, k := range p.Spec.Containers {
			key += p.Namespace + "/" + k.Name + "\x00" + strings.Join(slices.Concat(k.Command, k.Args), "\x00")
		}
		if !same[key] || ready > 0 {
			same[key] = true
			out = slices.DeleteFunc(out, func(r runner) bool { return r.key == key })
			add(p, t, ready, "status.conditions[Ready]")
			out[len(out)-1].key = key
		}
	}
	slices.SortFunc(out, func(a, b runner) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()), strings.Compare(RefTo(a.Object).Kind, RefTo(b.Object).Kind))
	})
	return out
}

// profiles are the schedulerNames in configurations that the template mounts from ConfigMaps, as far as those were read.
func (f *Facts) profiles(namespace string, t *corev1.PodTemplateSpec) (out []string) {
	for _, name := range configMapsOf(t) {
		for _, m := range f.ConfigMaps {
			if m.Namespace != namespace || m.Name != name {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(m.Data)) {
				names, _ := kubescheduler.Profiles(m.Data[key])
				out = append(out, names...)
			}
		}
	}
	return out
}

// configMapsOf are the ConfigMaps that the template mounts.
func configMapsOf(t *corev1.PodTemplateSpec) (out []string) {
	for _, v := range t.Spec.Volumes {
		if v.ConfigMap != nil {
			out = append(out, v.ConfigMap.Name)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				out = append(out, s.ConfigMap.Name)
			}
		}
	}
	return out
}

// SchedulerConfigs are the ConfigMaps, by namespace and name, in which schedulers may have their configurations.
func (f *Facts) SchedulerConfigs() (out []types.NamespacedName) {
	add := func(namespace string, t *corev1.PodTemplateSpec) {
		if !configured(t) {
			return
		}
		for _, name := range configMapsOf(t) {
			if at := (types.NamespacedName{Namespace: namespace, Name: name}); !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	for _, d := range f.Deployments {
		add(d.Namespace, &d.Spec.Template)
	}
	for _, s := range f.StatefulSets {
		add(s.Namespace, &s.Spec.Template)
	}
	for _, d := range f.DaemonSets {
		add(d.Namespace, &d.Spec.Template)
	}
	return out
}

// schedulerNames are the schedulerNames that containers of the template are told to serve, by a flag or a variable whose name
// has scheduler name in it: --scheduler-name=gang, --scheduler-name gang, SCHEDULER_NAME=gang.
func schedulerNames(t *corev1.PodTemplateSpec) []string {
	var out []string
	add := func(values string) {
		for v := range strings.SplitSeq(values, ",") {
			if v = strings.TrimSpace(v); v != "" && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	for _, k := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		words := slices.Concat(k.Command, k.Args)
		if len(words) > 0 && strings.ContainsAny(words[len(words)-1], " \n") { // sh -c "..."
			words = append(words[:len(words)-1:len(words)-1], strings.Fields(words[len(words)-1])...)
		}
		for i, w := range words {
			flag, value, has := strings.Cut(w, "=")
			switch {
			case !strings.HasPrefix(flag, "-") || !namesScheduler(flag):
			case has:
				add(strings.Trim(value, `"'`))
			case i+1 < len(words) && !strings.HasPrefix(words[i+1], "-"):
				add(strings.Trim(words[i+1], `"'`))
			}
		}
		for _, e := range k.Env {
			if namesScheduler(e.Name) {
				add(e.Value)
			}
		}
	}
	return out
}

// namesScheduler says whether a flag or a variable gives the name of a scheduler. Controllers that hand work to one have such
// flags too, with a word before it.
func namesScheduler(key string) bool {
	key = strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(key))
	return key == "schedulername" || key == "schedulernames"
}

// configured says whether the template runs kube-scheduler, or a build of it, with a configuration file. Its profiles are in there.
func configured(t *corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(t.Spec.Containers, func(k corev1.Container) bool {
		words := slices.Concat(k.Command, k.Args)
		scheduler := strings.Contains(lastPart(k.Image), "scheduler") || len(words) > 0 && strings.Contains(lastPart(words[0]), "scheduler")
		return scheduler && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--config") || strings.HasPrefix(w, "-config") })
	})
}

// lastPart is the name of a program or an image, without its path and its version.
func lastPart(s string) string {
	s = s[strings.LastIndexByte(s, '/')+1:]
	s, _, _ = strings.Cut(s, "@")
	s, _, _ = strings.Cut(s, ":")
	return s
}

// runnerLabels are the labels in which a chart writes what its pods are.
var runnerLabels = []string{"app.kubernetes.io/name", "app.kubernetes.io/component", "k8s-app", "app", "component"}

// called says whether the workload has the scheduler's name; or its container, its image or its label has, and one of them says
// that it is a scheduler: other parts of a scheduler's installation share its labels.
func (r *runner) called(name string) bool {
	is := func(s string) bool { return s == name || s == name+"-scheduler" }
	if is(r.GetName()) {
		return true
	}
	words := []string{r.GetName()}
	for _, k := range r.template.Spec.Containers {
		words = append(words, k.Name, lastPart(k.Image))
	}
	for _, l := range runnerLabels {
		words = append(words, r.template.Labels[l], r.GetLabels()[l])
	}
	return slices.ContainsFunc(words, is) && slices.ContainsFunc(words, func(s string) bool { return strings.Contains(s, "sched") })
}

// runnerOf is the workload that serves the schedulerName: it says so, its pods have written events in that name, or it has the
// name. sure is false where it only may: of all schedulers whose configuration is not read, it is the only one.
func (f *Facts) runnerOf(name string) (r *runner, sure bool) {
	all := f.schedulers().runners
	find := func(is func(*runner) bool) *runner {
		var out *runner
		for i := range all {
			if is(&all[i]) && (out == nil || out.available == 0 && all[i].available > 0) {
				out = &all[i]
			}
		}
		return out
	}
	if r := find(func(r *runner) bool { return slices.Contains(r.names, name) }); r != nil {
		return r, true
	}
	if pod := f.schedulers().writers[name]; pod != "" {
		if r := find(func(r *runner) bool { return r.holds(pod) }); r != nil {
			return r, true
		}
	}
	if r := find(func(r *runner) bool { return (len(r.names) == 0 || slices.Contains(r.names, name)) && r.called(name) }); r != nil {
		return r, true
	}
	if name == corev1.DefaultSchedulerName {
		return nil, false
	}
	quiet := 0
	for i := range all {
		if all[i].quiet {
			r, quiet = &all[i], quiet+1
		}
	}
	if quiet != 1 {
		return nil, false
	}
	return r, false
}

// holds says whether the pod, by its name, is one of the workload's.
func (r *runner) holds(pod string) bool {
	if r.key != "" {
		return pod == r.GetName()
	}
	rest, ok := strings.CutPrefix(pod, r.GetName()+"-")
	if _, set := r.Object.(*appsv1.Deployment); set {
		return ok && strings.Count(rest, "-") == 1 // the template's hash, and the pod's own
	}
	return ok && !strings.Contains(rest, "-")
}

// findWriters finds the pods that have written events as schedulers, by schedulerName. A scheduler's events say which instance
// wrote them: its name, and that of the host, which is the pod's (client-go v0.37.1, tools/events/event_broadcaster.go).
func (f *Facts) findWriters() map[string]string {
	out, at := make(map[string]string), make(map[string]time.Time)
	for _, e := range f.Events {
		name := Emitter(e)
		if e.Reason != "Scheduled" && e.Reason != "FailedScheduling" || name == "" {
			continue
		}
		pod := cmp.Or(strings.TrimPrefix(e.ReportingInstance, name+"-"), e.Source.Host)
		if pod != "" && !EventTime(e).Before(at[name]) {
			out[name], at[name] = pod, EventTime(e)
		}
	}
	return out
}

// leaseHeldBy is the newest lease that a pod of the workload holds, or held. Holders are named by their pod, and a number
// (kubernetes v1.37.1, cmd/kube-scheduler/app/options/options.go).
func (f *Facts) leaseHeldBy(r *runner) *coordinationv1.Lease {
	var out *coordinationv1.Lease
	for _, l := range f.Leases {
		if l.Spec.HolderIdentity == nil {
			continue
		}
		pod, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
		if r.holds(pod) && (out == nil || renewed(l).After(renewed(out))) {
			out = l
		}
	}
	return out
}
