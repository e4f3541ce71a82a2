package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/kube/dialect"
)

// What Volcano's own definitions, webhooks and policies refuse (volcano v1.15.1, pkg/webhooks/admission and
// installer/helm/chart/volcano/policy), in so far as it is about one object and the queues around it. Who wrote the manifest for Volcano would
// have been told; who has it planned here has to be told too.

const volcanoQueues = "scheduling.volcano.sh"

// Queues are the Queues of Volcano, those of the manifests in place of those of the cluster.
type Queues []*unstructured.Unstructured

func (q Queues) named(name string) *unstructured.Unstructured {
	for _, u := range q {
		if u.GetName() == name {
			return u
		}
	}
	return nil
}

func (q Queues) below(name string) (out Queues) {
	for _, u := range q {
		if parentOf(u) == name {
			out = append(out, u)
		}
	}
	return out
}

func parentOf(u *unstructured.Unstructured) string { return dialect.Text(u.Object, "spec", "parent") }

// refusedByVolcano is why Volcano refuses a Queue or a PodGroup of its own; nil: it takes it, or has nothing to do with it.
func refusedByVolcano(u *unstructured.Unstructured, queues Queues) error {
	if u.GroupVersionKind().Group != volcanoQueues {
		return nil
	}
	err := error(nil)
	switch u.GetKind() {
	case "Queue":
		err = queues.refuses(u)
	case "PodGroup":
		err = refusedPodGroup(u, queues)
	}
	return byVolcano(err)
}

func byVolcano(err error) error {
	if err != nil {
		return fmt.Errorf("%w: Volcano refuses it", err)
	}
	return nil
}

// open is why nothing can be submitted to the queue; nil: it can, or no such queue was read.
func (q Queues) open(field, name string) error {
	state := ""
	if u := q.named(name); u != nil {
		state = dialect.Text(u.Object, "status", "state")
	}
	if state != "" && state != "Open" && state != "Unknown" {
		return fmt.Errorf("%s: queue %s is %s, and takes work only while it is Open", field, name, state)
	}
	return nil
}

func refusedPodGroup(u *unstructured.Unstructured, queues Queues) error {
	spec, _ := u.Object["spec"].(map[string]any)
	queue, _ := spec["queue"].(string)
	if err := firstOf(queues.open("spec.queue", queue), twoTiers("spec.networkTopology", spec["networkTopology"])); err != nil {
		return err
	}
	policies, _ := spec["subGroupPolicy"].([]any)
	for i, p := range policies {
		of, _ := p.(map[string]any)
		if err := twoTiers(fmt.Sprintf("spec.subGroupPolicy[%d].networkTopology", i), of["networkTopology"]); err != nil {
			return err
		}
	}
	return nil
}

// twoTiers is about a network topology that names its highest tier in two ways.
func twoTiers(field string, topology any) error {
	of, _ := topology.(map[string]any)
	if name, _ := of["highestTierName"].(string); of["highestTierAllowed"] != nil && name != "" {
		return fmt.Errorf("%s: it has highestTierAllowed and highestTierName, and may have one of them", field)
	}
	return nil
}

// queueAmounts are those of a Queue.
type queueAmounts struct {
	Capability corev1.ResourceList `json:"capability"`
	Deserved   corev1.ResourceList `json:"deserved"`
	Guarantee  struct {
		Resource corev1.ResourceList `json:"resource"`
	} `json:"guarantee"`
}

func amountsOf(u *unstructured.Unstructured) (out queueAmounts, err error) {
	if u.Object["spec"] != nil {
		err = decode(u.Object["spec"], &out)
	}
	return out, err
}

// refuses is about a Queue: guaranteed is at most what is deserved, that at most the capability, and those of the queues below another at most
// what it has.
func (q Queues) refuses(u *unstructured.Unstructured) error {
	own, err := amountsOf(u)
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	for _, name := range resourceNames(own.Guarantee.Resource) {
		if at, ok := own.Deserved[name]; !ok || at.Cmp(own.Guarantee.Resource[name]) < 0 {
			return fmt.Errorf("spec.deserved.%s: it is less than the guarantee, %s", name, show(own.Guarantee.Resource, name))
		}
	}
	for _, name := range resourceNames(own.Deserved) {
		if most, ok := own.Capability[name]; ok && most.Cmp(own.Deserved[name]) < 0 {
			return fmt.Errorf("spec.deserved.%s: %s is more than the capability, %s", name, show(own.Deserved, name), show(own.Capability, name))
		}
	}
	parent := parentOf(u)
	if parent == u.GetName() {
		return fmt.Errorf("spec.parent: queue %s cannot be its own parent", parent)
	}
	above := q.named(parent)
	if err := refusedHierarchy(u); err != nil || above == nil || parent == "root" {
		return err
	}
	return q.within(u, &own, above)
}

// within is about a queue below another that is not root.
func (q Queues) within(u *unstructured.Unstructured, own *queueAmounts, above *unstructured.Unstructured) error {
	for _, name := range resourceNames(own.Capability) {
		if of, most := q.capability(above, name); most != nil && most.Cmp(own.Capability[name]) < 0 {
			return fmt.Errorf("spec.capability.%s: %s is more than that of queue %s above it, %s", name, show(own.Capability, name), of, most)
		}
	}
	has, err := amountsOf(above)
	if err != nil {
		return nil // which is said of that queue
	}
	deserved, guaranteed := make(corev1.ResourceList), make(corev1.ResourceList)
	for _, b := range q.below(above.GetName()) {
		if of, err := amountsOf(b); err == nil {
			sum(deserved, of.Deserved)
			sum(guaranteed, of.Guarantee.Resource)
		}
	}
	for _, of := range []struct {
		field    string
		sum, has corev1.ResourceList
		own      corev1.ResourceList
	}{{"guarantee.resource", guaranteed, has.Guarantee.Resource, own.Guarantee.Resource}, {"deserved", deserved, has.Deserved, own.Deserved}} {
		for _, name := range resourceNames(of.sum) {
			if most := of.has[name]; most.Cmp(of.sum[name]) < 0 && of.own[name] != (resource.Quantity{}) {
				return fmt.Errorf("spec.%s.%s: queues below %s have %s together, and it has %s", of.field, name, above.GetName(), show(of.sum, name), show(of.has, name))
			}
		}
	}
	return nil
}

// capability is that of the nearest queue with one, from this queue upwards.
func (q Queues) capability(u *unstructured.Unstructured, name corev1.ResourceName) (of string, most *resource.Quantity) {
	for range len(q) { // a circle ends
		if u == nil || u.GetName() == "root" {
			return "", nil
		}
		if own, err := amountsOf(u); err == nil {
			if n, ok := own.Capability[name]; ok && !n.IsZero() {
				return u.GetName(), &n
			}
		}
		u = q.named(parentOf(u))
	}
	return "", nil
}

func refusedHierarchy(u *unstructured.Unstructured) error {
	path, weights := u.GetAnnotations()["volcano.sh/hierarchy"], u.GetAnnotations()["volcano.sh/hierarchy-weights"]
	if path == "" && weights == "" {
		return nil
	}
	if strings.Count(path, "/") != strings.Count(weights, "/") {
		return errors.New("annotation volcano.sh/hierarchy-weights: it needs a weight for each name of volcano.sh/hierarchy")
	}
	for text := range strings.SplitSeq(weights, "/") {
		if n, err := strconv.ParseFloat(text, 64); err != nil || !(n > 0) {
			return fmt.Errorf("annotation volcano.sh/hierarchy-weights: %q is no number above 0", text)
		}
	}
	return nil
}

func resourceNames(of corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(of)) }

func show(of corev1.ResourceList, name corev1.ResourceName) string {
	n := of[name]
	return n.String()
}

func sum(into, more corev1.ResourceList) {
	for _, name := range resourceNames(more) {
		n := into[name].DeepCopy()
		n.Add(more[name])
		into[name] = n
	}
}

// What a policy of a Job may be about, and do.
var (
	volcanoEvents  = []string{"*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
	volcanoActions = []string{"AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob"}
	volcanoPlugins = []string{"env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"}
)

// volcanoPolicy is what becomes of a Job or a task.
type volcanoPolicy struct {
	Action   string   `json:"action"`
	Event    string   `json:"event"`
	Events   []string `json:"events"`
	ExitCode *int32   `json:"exitCode"`
	Timeout  any      `json:"timeout"`
}

// refused is why Volcano refuses a Job whose tasks have their defaults; nil: it takes it.
func (s *volcanoSpec) refused(at, job string, queues Queues) error {
	if len(s.Tasks) == 0 {
		return fmt.Errorf("%s.tasks: there are none", at)
	}
	all, names := int32(0), make(map[string]bool)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if err := t.refused(fmt.Sprintf("%s.tasks[%d]", at, i), job, i, names); err != nil {
			return err
		}
		all += t.Replicas
	}
	queue := cmp.Or(s.Queue, "default")
	switch {
	case s.MinAvailable < 0 || s.MinAvailable > all:
		return fmt.Errorf("%s.minAvailable: it is %d, and the tasks have %d pods", at, s.MinAvailable, all)
	case queue == "root":
		return fmt.Errorf("%s.queue: nothing is submitted to queue root", at)
	case len(queues.below(queue)) > 0:
		return fmt.Errorf("%s.queue: queue %s has %d queues below it, and takes no work itself", at, queue, len(queues.below(queue)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Plugins)) {
		if !slices.Contains(volcanoPlugins, name) {
			return fmt.Errorf("%s.plugins: there is no plugin %s: it has %s", at, name, strings.Join(volcanoPlugins, ", "))
		}
	}
	if args, ok := s.Plugins["mpi"]; ok && !names[masterOf(args)] {
		return fmt.Errorf("%s.plugins.mpi: no task is called %s", at, masterOf(args))
	}
	return firstOf(queues.open(at+".queue", queue), twoTiers(at+".networkTopology", anyOf(s.NetworkTopology)), refusedPolicies(at+".policies", s.Policies), s.refusedVolumes(at), s.circle(at))
}

func anyOf(m map[string]any) any { return m }

// masterOf is the task that plugin mpi takes for the master.
func masterOf(args []string) string {
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case name != "master":
		case ok:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return "master"
}

func (t *volcanoTask) refused(at, job string, index int, names map[string]bool) error {
	least := int32(0)
	if t.MinAvailable != nil {
		least = *t.MinAvailable
	}
	called := fmt.Sprintf("%s-%s-%d", job, t.Name, index)
	switch {
	case names[t.Name]:
		return fmt.Errorf("%s.name: another task is called %s too", at, t.Name)
	case t.Replicas < 0:
		return fmt.Errorf("%s.replicas: %d is below zero", at, t.Replicas)
	case least < 0 || least > t.Replicas:
		return fmt.Errorf("%s.minAvailable: it is %d, and the task has %d pods", at, least, t.Replicas)
	case len(validation.IsQualifiedName(called)) > 0:
		return fmt.Errorf("%s.name: its pods would be called %s, which has more than 63 characters or ones that no name has", at, called)
	}
	names[t.Name] = true
	spec := t.Template.Spec.DeepCopy()
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways)
	return firstOf(dnsLabel(at+".name", t.Name), refusedPolicies(at+".policies", t.Policies), invalidPod(at+".template.spec", spec), t.refusedParts(at))
}

func (t *volcanoTask) refusedParts(at string) error {
	p := t.Partitions
	if p == nil {
		return nil
	}
	at += ".partitionPolicy"
	switch {
	case p.Total <= 0 || p.Size <= 0:
		return fmt.Errorf("%s: totalPartitions is %d and partitionSize %d: both have to be above 0", at, p.Total, p.Size)
	case int64(t.Replicas) != int64(p.Total)*int64(p.Size):
		return fmt.Errorf("%s: %d partitions of %d pods are not the %d replicas", at, p.Total, p.Size, t.Replicas)
	case t.MinAvailable != nil && p.Least > 0 && p.Least*p.Size != *t.MinAvailable:
		return fmt.Errorf("%s.minPartitions: %d partitions of %d pods are not the minAvailable, %d", at, p.Least, p.Size, *t.MinAvailable)
	}
	return twoTiers(at+".networkTopology", anyOf(p.NetworkTopology))
}

func refusedPolicies(at string, all []volcanoPolicy) error {
	events, codes := make(map[string]bool), make(map[int32]bool)
	for i, p := range all {
		at := fmt.Sprintf("%s[%d]", at, i)
		of := slices.Clone(p.Events)
		if p.Event != "" && !slices.Contains(of, p.Event) {
			of = append(of, p.Event)
		}
		switch {
		case (len(of) > 0) == (p.ExitCode != nil):
			return fmt.Errorf("%s: it needs one of event and exitCode", at)
		case p.ExitCode != nil && *p.ExitCode == 0:
			return fmt.Errorf("%s.exitCode: 0 is no failure", at)
		case p.ExitCode != nil && codes[*p.ExitCode]:
			return fmt.Errorf("%s.exitCode: another policy is about %d too", at, *p.ExitCode)
		case p.ExitCode != nil:
			codes[*p.ExitCode] = true
			continue
		case !slices.Contains(volcanoActions, p.Action):
			return fmt.Errorf("%s.action: %q is none of %s", at, p.Action, strings.Join(volcanoActions, ", "))
		}
		slices.Sort(of)
		for _, event := range slices.Compact(of) {
			if !slices.Contains(volcanoEvents, event) {
				return fmt.Errorf("%s.event: %q is none of %s", at, event, strings.Join(volcanoEvents, ", "))
			}
			if events[event] {
				return fmt.Errorf("%s.event: another policy is about %s too", at, event)
			}
			events[event] = true
		}
	}
	if events["*"] && len(events) > 1 {
		return fmt.Errorf("%s: one is about all events, and others about some", at)
	}
	return nil
}

func (s *volcanoSpec) refusedVolumes(at string) error {
	paths := make(map[string]bool)
	for i, v := range s.Volumes {
		at := fmt.Sprintf("%s.volumes[%d]", at, i)
		switch {
		case v.MountPath == "":
			return fmt.Errorf("%s.mountPath: there is none", at)
		case paths[v.MountPath]:
			return fmt.Errorf("%s.mountPath: another volume is mounted at %s too", at, v.MountPath)
		case (v.ClaimName == "") == (v.Claim == nil):
			return fmt.Errorf("%s: it needs one of volumeClaimName and volumeClaim", at)
		}
		if err := dnsName(at+".volumeClaimName", v.ClaimName); err != nil {
			return err
		}
		paths[v.MountPath] = true
	}
	return nil
}

// circle is about tasks that wait for each other, or for one that there is not.
func (s *volcanoSpec) circle(at string) error {
	done := make(map[string]bool)
	for again := true; again; {
		again = false
		for i := range s.Tasks {
			t := &s.Tasks[i]
			if !done[t.Name] && !slices.ContainsFunc(t.DependsOn.Name, func(name string) bool { return !done[name] }) {
				done[t.Name], again = true, true
			}
		}
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; !done[t.Name] {
			return fmt.Errorf("%s.tasks[%d].dependsOn: task %s waits for %s, which waits for it or does not exist", at, i, t.Name, strings.Join(t.DependsOn.Name, ", "))
		}
	}
	return nil
}
