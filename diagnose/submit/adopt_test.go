package submit

import (
	stdcmp "cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// TestAdopt plans a cluster of two nodes with eight GPUs each that another scheduler serves: what is understood, and what would start,
// wait and go on running.
func TestAdopt(t *testing.T) {
	pod := func(scheduler, name, node, labels, annotations string, gpus int) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: a, labels: %s, annotations: %s}
spec:
  schedulerName: %s
  nodeName: %q
  containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: "%d"}, limits: {nvidia.com/gpu: "%[6]d"}}}]
status: {phase: %s}
`, name, labels, annotations, scheduler, node, gpus, map[bool]string{true: "Pending", false: "Running"}[node == ""])
	}
	for name, c := range map[string]struct {
		objects []string
		want    string
	}{
		"kai": {[]string{
			"{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: blue}, spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}, shards: 2}}",
			"{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: red}, spec: {resources: {gpu: {quota: 8, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}}",
			"{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: gang, namespace: a}, spec: {minMember: 2, queue: red}}",
			pod("kai-scheduler", "runs", "gpu-0", "{kai.scheduler/queue: blue}", "{}", 4),
			pod("kai-scheduler", "beyond", "", "{kai.scheduler/queue: blue}", "{}", 1),
			pod("kai-scheduler", "starts", "", "{kai.scheduler/queue: red}", "{kai.scheduler/task-priority: high}", 1),
			pod("kai-scheduler", "half", "", "{}", "{pod-group-name: gang}", 1),
			pod("default-scheduler", "other", "", "{}", "{}", 1),
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: binder, namespace: kai-scheduler}, spec: {replicas: 1}}",
		}, `
PodGroup.scheduling.run.ai 1: 1 understood, 0 in part, 0 refused
Queue.scheduling.run.ai 2: 1 understood, 1 in part, 0 refused
Pod 4: 3 understood, 1 in part, 0 refused
queue/blue: spec.shards
pod/starts: kai.scheduler/task-priority
blue: now 1 run 1 wait, then 1 run 0 start 1 wait
red: now 0 run 2 wait, then 0 run 1 start 1 wait
pod/starts waits -> starts
pod/beyond waits -> waits over-queue-limit
pod/runs runs -> runs
pod/half waits -> waits gang-incomplete
kubectl -n kai-scheduler scale deployment binder --replicas=0
`},
		"volcano": {[]string{
			"{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: small}, spec: {capability: {nvidia.com/gpu: 2}}}",
			"{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: whole, namespace: a}, spec: {minMember: 2, queue: small}}",
			pod("volcano", "w-0", "", "{}", "{scheduling.k8s.io/group-name: whole}", 1),
			pod("volcano", "w-1", "", "{}", "{scheduling.k8s.io/group-name: whole}", 1),
			pod("volcano", "lost", "", "{}", "{scheduling.k8s.io/group-name: nowhere}", 1),
		}, `
PodGroup.scheduling.volcano.sh 1: 1 understood, 0 in part, 0 refused
Queue.scheduling.volcano.sh 1: 1 understood, 0 in part, 0 refused
Pod 3: 2 understood, 0 in part, 1 refused
pod/lost: PodGroup nowhere does not exist
default: now 0 run 1 wait, then 0 run 0 start 1 wait
small: now 0 run 2 wait, then 0 run 2 start 0 wait
pod/w-0 waits -> starts
pod/w-1 waits -> starts
pod/lost waits -> waits invalid-object
stop volcano's own scheduler: two must not decide about the same pods
`},
		"coscheduling": {[]string{
			"{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {minMember: 3}}",
			pod("scheduler-plugins-scheduler", "g-0", "", "{scheduling.x-k8s.io/pod-group: g}", "{}", 1),
			pod("scheduler-plugins-scheduler", "g-1", "", "{scheduling.x-k8s.io/pod-group: g}", "{}", 1),
			pod("scheduler-plugins-scheduler", "one", "", "{}", "{}", 1),
		}, `
PodGroup.scheduling.x-k8s.io 1: 1 understood, 0 in part, 0 refused
Pod 3: 3 understood, 0 in part, 0 refused
-: now 0 run 3 wait, then 0 run 1 start 2 wait
pod/one waits -> starts
pod/g-0 waits -> waits gang-incomplete
pod/g-1 waits -> waits gang-incomplete
stop coscheduling's own scheduler: two must not decide about the same pods
`},
		"kueue": {[]string{
			"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}, spec: {}}",
			"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]}]}}",
			"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: door, namespace: a}, spec: {clusterQueue: team}}",
			`{apiVersion: batch/v1, kind: Job, metadata: {name: fits, namespace: a, labels: {kueue.x-k8s.io/queue-name: door}}, spec: {suspend: true, parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}}]}}}}`,
			`{apiVersion: batch/v1, kind: Job, metadata: {name: later, namespace: a, labels: {kueue.x-k8s.io/queue-name: door}}, spec: {suspend: true, parallelism: 1, completions: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}}]}}}}`,
		}, `
ClusterQueue.kueue.x-k8s.io 1: 1 understood, 0 in part, 0 refused
LocalQueue.kueue.x-k8s.io 1: 1 understood, 0 in part, 0 refused
ResourceFlavor.kueue.x-k8s.io 1: 1 understood, 0 in part, 0 refused
Pod 3: 3 understood, 0 in part, 0 refused
team: now 0 run 2 wait, then 0 run 1 start 1 wait
job/fits waits -> starts
job/later waits -> waits over-queue-limit
stop kueue's own controller: two must not decide about the same pods
`},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(2, 0)
			f.Pods = nil
			f.Namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "ns-a", Labels: map[string]string{corev1.LabelMetadataName: "a"}}}}
			f.PriorityClasses = append(f.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Value: 50})
			for i, text := range c.objects {
				give(t, f, text, i)
			}
			a, err := Adopt(World{Facts: f, Against: "cluster"}, all.Find(name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), adoption(&a)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, _ := Adopt(World{Facts: f, Against: "cluster"}, all.Find(name))
			if diff := cmp.Diff(a, again); diff != "" {
				t.Errorf("the same cluster gives another report:\n%s", diff)
			}
		})
	}
}

func adoption(a *Adoption) string {
	var b strings.Builder
	for _, k := range a.Objects {
		fmt.Fprintf(&b, "%s %d: %d understood, %d in part, %d refused\n", k.Kind, k.Objects, k.Understood, k.InPart, k.Refused)
	}
	for _, u := range a.Unread {
		fmt.Fprintf(&b, "%s: %s%s\n", u.Object, strings.Join(u.Fields, ", "), u.Problem)
	}
	for _, q := range a.Queues {
		fmt.Fprintf(&b, "%s: now %d run %d wait, then %d run %d start %d wait\n", stdcmp.Or(q.Name, "-"), q.Now.Run, q.Now.Wait, q.Then.Run, q.Then.Start, q.Then.Wait)
	}
	for _, w := range a.Workloads {
		fmt.Fprintf(&b, "%s %s -> %s\n", w.Target, w.Now.State, strings.TrimSpace(w.Then.State+" "+w.Then.Cause))
	}
	return b.String() + strings.Join(a.Steps[1:len(a.Steps)-1], "\n") + "\n"
}

// give puts an object into the facts.
func give(t *testing.T, f *facts.Facts, text string, i int) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetUID(types.UID(fmt.Sprintf("u-%d", i)))
	u.SetCreationTimestamp(metav1.NewTime(now))
	k := facts.KindOf(u.GroupVersionKind().Group, u.GetKind())
	if k == nil {
		t.Fatalf("%s is not gathered", u.GroupVersionKind())
	}
	if k.Foreign {
		k.Add(&f.Objects, u)
		return
	}
	o := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		t.Fatal(err)
	}
	k.Add(&f.Objects, o)
}

// TestAdoptGathers holds that whatever a dialect reads is gathered, and goes into bundles.
func TestAdoptGathers(t *testing.T) {
	for _, d := range all.Readers() {
		for _, k := range d.Kinds() {
			if facts.KindOf(k.Group, k.Kind) == nil {
				t.Errorf("%s: nobody gathers %s", d.Name(), k.Name())
			}
		}
	}
}
