package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/dialect/all"
)

// ofDialect are the policies that the dialect installs, compiled.
func ofDialect(t testing.TB, name string) (out []*mutator) {
	for _, text := range all.Find(name).Install().Objects {
		x := &mutator{}
		if err := yaml.Unmarshal([]byte(text), &x.policy); err != nil {
			t.Fatal(err)
		}
		if x.policy.Kind != "MutatingAdmissionPolicy" {
			continue
		}
		x.compile(t)
		out = append(out, x)
	}
	return out
}

// TestKueueLetsIn holds what becomes of objects that name a LocalQueue: Jobs are suspended, pods gated, and templates of other projects'
// objects say the queue, whatever metadata they have.
func TestKueueLetsIn(t *testing.T) {
	const head = "metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: blue}}\n"
	mark := `{kueue.x-k8s.io/managed: "true", kueue.x-k8s.io/queue-name: blue}`
	policies := ofDialect(t, "kueue")
	for name, c := range map[string]struct{ object, want string }{
		"Job": {"apiVersion: batch/v1\nkind: Job\n" + head + "spec: {template: {spec: {containers: []}}}",
			"{suspend: true, template: {metadata: {}, spec: {containers: [], schedulerName: berth}}}"},
		"a pod of a JobSet": {`{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {kueue.x-k8s.io/queue-name: blue, kueue.x-k8s.io/managed: "true"}, ownerReferences: [{kind: Job, name: j, apiVersion: batch/v1, uid: u, controller: true}]}, spec: {containers: []}}`,
			"{containers: [], schedulerName: berth, schedulingGates: [{name: kueue.x-k8s.io/admission}]}"},
		"a pod of a Job": {`{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {kueue.x-k8s.io/queue-name: blue}, ownerReferences: [{kind: Job, name: j, apiVersion: batch/v1, uid: u, controller: true}]}, spec: {containers: []}}`,
			"{containers: []}"},
		"JobSet": {"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + head + "spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {x: 1}}}}}, {name: b, template: {spec: {template: {metadata: {labels: {app: b}}, spec: {x: 1}}}}}]}",
			"{replicatedJobs: [{name: a, template: {spec: {template: {metadata: {labels: " + mark + "}, spec: {x: 1}}}}}, {name: b, template: {spec: {template: {metadata: {labels: {app: b, " + mark[1:] + "}, spec: {x: 1}}}}}]}"},
		"LeaderWorkerSet": {"apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n" + head + "spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {annotations: {a: b}}, spec: {x: 1}}}}",
			"{leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {annotations: {a: b}, labels: " + mark + "}, spec: {x: 1}}}}"},
		"MPIJob": {"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n" + head + "spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {x: 1}}}, Worker: {template: {spec: {x: 2}}}}}",
			"{mpiReplicaSpecs: {Launcher: {template: {metadata: {labels: " + mark + "}, spec: {x: 1}}}, Worker: {template: {metadata: {labels: " + mark + "}, spec: {x: 2}}}}}"},
		"RayCluster": {"apiVersion: ray.io/v1\nkind: RayCluster\n" + head + "spec: {headGroupSpec: {template: {spec: {x: 1}}}, workerGroupSpecs: [{groupName: g, template: {spec: {x: 2}}}]}",
			"{headGroupSpec: {template: {metadata: {labels: " + mark + "}, spec: {x: 1}}}, workerGroupSpecs: [{groupName: g, template: {metadata: {labels: " + mark + "}, spec: {x: 2}}}]}"},
		"JobSet that is suspended": {"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n" + head + "spec: {suspend: true, replicatedJobs: []}",
			"{suspend: false, replicatedJobs: []}"},
		"MPIJob that is suspended": {"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n" + head + "spec: {runPolicy: {suspend: true, cleanPodPolicy: None}, mpiReplicaSpecs: {Worker: {template: {spec: {x: 2}}}}}",
			"{runPolicy: {suspend: false, cleanPodPolicy: None}, mpiReplicaSpecs: {Worker: {template: {metadata: {labels: " + mark + "}, spec: {x: 2}}}}}"},
		"RayJob that is suspended": {"apiVersion: ray.io/v1\nkind: RayJob\n" + head + "spec: {suspend: true, rayClusterSpec: {headGroupSpec: {template: {spec: {x: 1}}}}}",
			"{suspend: false, rayClusterSpec: {headGroupSpec: {template: {spec: {x: 1}}}}}"},
		"suspended without a queue": {"{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: a}, spec: {suspend: true}}",
			"{suspend: true}"},
		"no queue": {"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {x: 1}}}}}]}}",
			"{replicatedJobs: [{name: a, template: {spec: {template: {spec: {x: 1}}}}}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.object), &o.Object); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			got := admit(t, policies, "user", o, nil)
			if diff := cmp.Diff(text(t, want), text(t, got.Object["spec"])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func text(t testing.TB, v any) string {
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "creationTimestamp: null\n", "")
}

// TestRayClustersGoWhereTheirQueueIs holds that the templates of a RayCluster with a dialect's label get its scheduler, but for one that
// names another.
func TestRayClustersGoWhereTheirQueueIs(t *testing.T) {
	for name, c := range map[string]struct{ label, want string }{
		"kai":          {"kai.scheduler/queue: blue", "kai-scheduler"},
		"volcano":      {"volcano.sh/queue-name: blue", "volcano"},
		"coscheduling": {`ray.io/gang-scheduling-enabled: "true"`, "scheduler-plugins-scheduler"},
	} {
		for label, scheduler := range map[string]string{c.label: ", schedulerName: " + c.want, "app: x": ""} {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: a, labels: {"+label+"}}, spec: {headGroupSpec: {template: {spec: {x: 1}}}, workerGroupSpecs: [{template: {spec: {x: 2, schedulerName: other}}}, {template: {spec: {x: 3}}}]}}"), &o.Object); err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte("{headGroupSpec: {template: {spec: {x: 1"+scheduler+"}}}, workerGroupSpecs: [{template: {spec: {x: 2, schedulerName: other}}}, {template: {spec: {x: 3"+scheduler+"}}}]}"), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text(t, want), text(t, admit(t, ofDialect(t, name), "user", o, nil).Object["spec"])); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", name, label, diff)
			}
		}
	}
}
