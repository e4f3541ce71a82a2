package workload

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// What Volcano's webhooks and policies refuse is refused in their stead, with the field; what they take is taken.
func TestRefusedByVolcano(t *testing.T) {
	const pod = "template: {spec: {containers: [{name: c, image: x}]}}"
	job := func(spec string) string {
		return "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j}, spec: {" + spec + "}}"
	}
	tasks := func(of string) string { return job("tasks: [" + of + "]") }
	one := func(more string) string { return tasks("{name: a, replicas: 2, " + more + " " + pod + "}") }
	with := func(more string) string { return job(more + " tasks: [{name: a, replicas: 2, " + pod + "}]") }
	queue := func(spec string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {" + spec + "}}"
	}
	weights := func(path, of string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q, annotations: {volcano.sh/hierarchy: " + path + ", volcano.sh/hierarchy-weights: '" + of + "'}}, spec: {weight: 1}}"
	}
	group := func(spec string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {" + spec + "}}"
	}
	read := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return u
	}
	var queues Queues
	for _, q := range []string{
		"{metadata: {name: default}, spec: {}, status: {state: Open}}",
		"{metadata: {name: shut}, spec: {}, status: {state: Closed}}",
		"{metadata: {name: team}, spec: {capability: {cpu: 8}, deserved: {cpu: 6}}}",
		"{metadata: {name: one}, spec: {parent: team, deserved: {cpu: 4}}}",
		"{metadata: {name: wide}, spec: {parent: root}}",
	} {
		queues = append(queues, read(q))
	}
	for _, c := range []struct{ text, says string }{
		{one(""), ""},
		{one("minAvailable: 3,"), "spec.tasks[0].minAvailable: it is 3"},
		{one("minAvailable: -1,"), "spec.tasks[0].minAvailable"},
		{with("minAvailable: 3,"), "spec.minAvailable: it is 3, and the tasks have 2 pods"},
		{with("minAvailable: 2,"), ""},
		{tasks(""), "spec.tasks: there are none"},
		{tasks("{name: a, replicas: 1, " + pod + "}, {name: a, replicas: 1, " + pod + "}"), "another task is called a"},
		{tasks("{replicas: 1, " + pod + "}, {replicas: 1, " + pod + "}"), ""},
		{tasks("{name: A, replicas: 1, " + pod + "}"), "spec.tasks[0].name"},
		{tasks("{name: " + strings.Repeat("a", 60) + ", replicas: 1, " + pod + "}"), "more than 63"},
		{tasks("{name: a, replicas: -1, " + pod + "}"), "spec.tasks[0].replicas"},
		{tasks("{name: a, replicas: 1, template: {spec: {containers: []}}}"), "spec.tasks[0].template.spec.containers: there are none"},
		{one("policies: [{event: TaskCompleted, action: CompleteJob}],"), ""},
		{one("policies: [{event: PodRunning, action: RestartJob}],"), `"PodRunning" is none of`},
		{one("policies: [{event: PodFailed, action: Restart}],"), `"Restart" is none of`},
		{one("policies: [{event: PodFailed}],"), "action"},
		{one("policies: [{event: PodFailed, exitCode: 3, action: RestartJob}],"), "one of event and exitCode"},
		{one("policies: [{action: RestartJob}],"), "one of event and exitCode"},
		{one("policies: [{exitCode: 0, action: RestartJob}],"), "0 is no failure"},
		{one("policies: [{exitCode: 3, action: RestartJob}, {exitCode: 3, action: AbortJob}],"), "about 3 too"},
		{one("policies: [{events: [PodEvicted, PodFailed], action: RestartJob}, {event: PodFailed, action: AbortJob}],"), "about PodFailed too"},
		{with("policies: [{event: '*', action: RestartJob}, {event: PodFailed, action: AbortJob}],"), "all events"},
		{with("policies: [{event: '*', action: RestartJob}],"), ""},
		{with("plugins: {svc: [], env: [], ssh: []},"), ""},
		{with("plugins: {sv: []},"), "no plugin sv"},
		{with("plugins: {mpi: []},"), "no task is called master"},
		{with("plugins: {mpi: ['--master=a']},"), ""},
		{with("volumes: [{mountPath: /a, volumeClaimName: c}],"), ""},
		{with("volumes: [{volumeClaimName: c}],"), "spec.volumes[0].mountPath"},
		{with("volumes: [{mountPath: /a}],"), "one of volumeClaimName and volumeClaim"},
		{with("volumes: [{mountPath: /a, volumeClaimName: c}, {mountPath: /a, volumeClaimName: d}],"), "mounted at /a too"},
		{with("networkTopology: {mode: hard, highestTierAllowed: 1, highestTierName: rack},"), "spec.networkTopology"},
		{with("queue: root,"), "queue root"},
		{with("queue: team,"), "queue team has 1 queues below it"},
		{with("queue: shut,"), "queue shut is Closed"},
		{with("queue: one,"), ""},
		{with("queue: unseen,"), ""},
		{one("partitionPolicy: {totalPartitions: 1, partitionSize: 2},"), ""},
		{one("partitionPolicy: {totalPartitions: 2, partitionSize: 2},"), "are not the 2 replicas"},
		{one("partitionPolicy: {totalPartitions: 2, partitionSize: 0},"), "above 0"},
		{one("minAvailable: 2, partitionPolicy: {totalPartitions: 2, partitionSize: 1, minPartitions: 1},"), "minPartitions"},
		{tasks("{name: a, replicas: 1, dependsOn: {name: [b]}, " + pod + "}, {name: b, replicas: 1, " + pod + "}"), ""},
		{tasks("{name: a, replicas: 1, dependsOn: {name: [b]}, " + pod + "}, {name: b, replicas: 1, dependsOn: {name: [a]}, " + pod + "}"), "waits for it or does not exist"},
		{tasks("{name: a, replicas: 1, dependsOn: {name: [z]}, " + pod + "}"), "waits for z"},
		{queue("weight: 1, capability: {cpu: 4}, deserved: {cpu: 4}, guarantee: {resource: {cpu: 1}}"), ""},
		{queue("deserved: {cpu: 5}, capability: {cpu: 4}"), "more than the capability, 4"},
		{queue("deserved: {cpu: 1}, guarantee: {resource: {cpu: 2}}"), "less than the guarantee, 2"},
		{queue("guarantee: {resource: {cpu: 2}}"), "less than the guarantee, 2"},
		{queue("parent: q"), "its own parent"},
		{queue("parent: team, capability: {cpu: 9}"), "more than that of queue team above it, 8"},
		{queue("parent: wide, capability: {cpu: 9}"), ""},
		{weights("root/a", "1/2"), ""},
		{weights("root/a", "1"), "a weight for each name"},
		{weights("root/a", "1/0"), "no number above 0"},
		{group("minMember: 2, queue: default"), ""},
		{group("minMember: 2, queue: shut"), "queue shut is Closed"},
		{group("minMember: 2, networkTopology: {highestTierAllowed: 1, highestTierName: rack}"), "may have one of them"},
		{group("minMember: 2, subGroupPolicy: [{name: a, networkTopology: {highestTierAllowed: 1, highestTierName: rack}}]"), "spec.subGroupPolicy[0].networkTopology"},
	} {
		_, _, err := Of(read(c.text).Object, Options{Namespace: "default", UID: func() types.UID { return "u" }, Volcano: true, Queues: queues})
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) || said != "" && !strings.HasSuffix(said, "Volcano refuses it") {
			t.Errorf("%q is said of\n%s", said, c.text)
		}
	}
	// Queues of one parent have no more together than it has, in the manifests that are submitted together too.
	for of, says := range map[string]string{"cpu: 2": "", "cpu: 3": "queues below team have 7 together, and it has 6"} {
		q := read(queue("parent: team, deserved: {" + of + "}"))
		_, _, err := Of(q.Object, Options{Namespace: "default", UID: func() types.UID { return "u" }, Volcano: true, Queues: append(queues, q)})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", of, err)
		}
	}
}
