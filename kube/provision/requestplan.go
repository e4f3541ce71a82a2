package provision

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/capacity/launch"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/report"
)

// Classes of ProvisioningRequests that the cluster autoscaler itself serves
// (apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go, kubernetes/autoscaler at 55c37cd5eb).
const (
	CheckCapacity    = "check-capacity.autoscaling.x-k8s.io"
	BestEffortAtomic = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// Annotations by which a pod says that it uses what a request provisioned. The autoscaler makes no other nodes for such a pod.
const (
	consumeKey = "autoscaling.x-k8s.io/consume-provisioning-request"
	classKey   = "autoscaling.x-k8s.io/provisioning-class-name"
)

// mostSets is how many kinds of pods a request may have, by its definition.
const mostSets = 32

// request is a ProvisioningRequest: nodes for all pods of a gang that wait, or for none.
type request struct {
	namespace, name, gang string
	attempt               int // each one is another object: what is asked for cannot be changed
	sets                  []podSet
	state                 requestState
	since                 time.Time // of the state
	said                  string
	torn                  bool // it is open, and a template of its pods was never written
}

// podSet is so many pods that are alike to an autoscaler.
type podSet struct {
	spec  corev1.PodSpec
	count int32
}

func (r *request) count() (n int32) {
	for _, s := range r.sets {
		n += s.count
	}
	return n
}

// requestState is how far a request has come.
type requestState int

const (
	requestOpen        requestState = iota // it is looked at, or accepted
	requestProvisioned                     // the nodes are there, and kept for its pods
	requestFailed                          // it cannot be had; it is asked for again later
	requestOver                            // they were there, and are not kept any more: BookingExpired, CapacityRevoked
)

// requestPlan is what to do about requests, in this order.
type requestPlan struct {
	drop []request
	ask  []request
	mark []marking
}

// marking writes on a pod which request it uses.
type marking struct {
	pod     *corev1.Pod
	request string
}

// planRequests decides which requests there are to be. A gang has one while all its pods that wait are marked as pods that need
// nodes, and until it has started: one that the autoscaler failed is remembered as long as it is not asked again, and what it provisioned
// is kept until its pods run, or the autoscaler says that it keeps it no more.
func planRequests(now time.Time, snap *engine.Snapshot, pods []corev1.Pod, have []request, backoff time.Duration) (out requestPlan) {
	waiting, needing := waitingGangs(snap, pods)
	last := make(map[string]*request) // by gang
	for i := range have {
		if r := &have[i]; last[r.gang] == nil || r.attempt > last[r.gang].attempt {
			last[r.gang] = r
		}
	}
	for i := range have {
		r := &have[i]
		_, waits := waiting[r.gang]
		_, needs := needing[r.gang]
		if last[r.gang] != r || !waits || !needs && r.state == requestOpen {
			out.drop = append(out.drop, *r)
		}
	}
	for _, gang := range sortedGangs(needing) {
		members := needing[gang]
		r := last[gang]
		switch {
		case r == nil:
			out.askFor(gang, 0, members)
		case r.state == requestOver, r.state == requestOpen && (r.torn || r.count() < int32(len(members))),
			r.state == requestFailed && !now.Before(r.since.Add(min(backoff<<min(r.attempt, 10), maxBackoff))):
			out.drop = append(out.drop, *r)
			out.askFor(gang, r.attempt+1, members)
		case r.state != requestFailed:
			out.markAll(r.name, members)
		}
	}
	return out
}

func (p *requestPlan) askFor(gang string, attempt int, members []*corev1.Pod) {
	namespace, _, _ := strings.Cut(gang, "/")
	r := request{namespace: namespace, name: launch.NeedID(gang) + "-" + strconv.Itoa(attempt), gang: gang, attempt: attempt, sets: setsOf(members)}
	if len(r.sets) > mostSets {
		return // no request can say it; its pods are marked, and nodes come for them one by one
	}
	p.ask = append(p.ask, r)
	p.markAll(r.name, members)
}

func (p *requestPlan) markAll(name string, members []*corev1.Pod) {
	for _, m := range members {
		if m.Annotations[consumeKey] != name {
			p.mark = append(p.mark, marking{m, name})
		}
	}
}

// waitingGangs are the gangs with pods on no node, and of these the ones all of whose waiting pods need nodes.
func waitingGangs(snap *engine.Snapshot, pods []corev1.Pod) (waiting map[string]bool, needing map[string][]*corev1.Pod) {
	objects := make(map[string]*corev1.Pod, len(pods))
	for i := range pods {
		objects[pods[i].Namespace+"/"+pods[i].Name] = &pods[i]
	}
	placed := make(map[string]bool, len(snap.Assumptions))
	for i := range snap.Assumptions {
		placed[snap.Assumptions[i].Pod] = true
	}
	waiting, needing = make(map[string]bool), make(map[string][]*corev1.Pod)
	other := make(map[string]bool)
	for i := range snap.Pods {
		p := &snap.Pods[i]
		if p.Node != "" || p.Foreign || p.Terminating || placed[p.Key] {
			continue
		}
		gang := p.WorkloadKey()
		waiting[gang] = true
		if o := objects[p.Key]; o != nil && needsNodes(o) {
			needing[gang] = append(needing[gang], o)
		} else {
			other[gang] = true
		}
	}
	for gang := range other { //archtest:any-order they are taken out of a set
		delete(needing, gang)
	}
	return waiting, needing
}

// needsNodes says whether the scheduler found that only more or other nodes help the pod. It says so before autoscalers see it.
func needsNodes(p *corev1.Pod) bool {
	cause, waits := report.PendingOf(p)
	return waits && cause.NeedsNodes()
}

// Asked says whether the pod carries a request: autoscalers make no nodes for it alone.
func Asked(p *corev1.Pod) bool { return p.Annotations[consumeKey] != "" }

// setsOf are the pods by what an autoscaler sees of them, in the order of their names.
func setsOf(members []*corev1.Pod) (out []podSet) {
	members = slices.SortedFunc(slices.Values(members), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	at := make(map[string]int)
	for _, p := range members {
		spec := templateOf(&p.Spec)
		key, err := json.Marshal(spec)
		if err != nil {
			panic("encode a pod: " + err.Error()) // it came from JSON
		}
		i, known := at[string(key)]
		if !known {
			i = len(out)
			at[string(key)] = i
			out = append(out, podSet{spec: spec})
		}
		out[i].count++
	}
	return out
}

// templateOf is what decides on which nodes the pod fits, and nothing else: volumes that only the kubelet sees differ from pod to pod.
func templateOf(s *corev1.PodSpec) corev1.PodSpec {
	out := corev1.PodSpec{
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, TopologySpreadConstraints: s.TopologySpreadConstraints,
		SchedulerName: s.SchedulerName, PriorityClassName: s.PriorityClassName, RuntimeClassName: s.RuntimeClassName, Overhead: s.Overhead,
		Containers: thin(s.Containers), InitContainers: thin(s.InitContainers), RestartPolicy: s.RestartPolicy, ResourceClaims: s.ResourceClaims, HostNetwork: s.HostNetwork,
	}
	for _, v := range s.Volumes {
		if v.PersistentVolumeClaim != nil {
			out.Volumes = append(out.Volumes, v)
		}
	}
	return out
}

func thin(list []corev1.Container) (out []corev1.Container) {
	for _, c := range list {
		out = append(out, corev1.Container{Name: c.Name, Image: c.Image, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
	}
	return out
}

func sortedGangs(m map[string][]*corev1.Pod) []string {
	out := make([]string, 0, len(m))
	for name := range m { //archtest:any-order sorted below
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
