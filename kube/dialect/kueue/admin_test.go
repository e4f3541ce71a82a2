package kueue

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

type world map[string]*dialect.Object

func (w world) Object(kind, _, name string) *dialect.Object { return w[kind+"/"+name] }
func (world) Objects(string, string) []*dialect.Object      { return nil }
func (world) Priority(string) (int32, bool)                 { return 0, false }

func TestQueues(t *testing.T) {
	known := world{Cohorts + "/research": {}}
	for _, f := range []string{"h100", "a100"} {
		o := ReadResourceFlavor(dialecttest.Object(t, "{spec: {nodeLabels: {nvidia.com/gpu.product: "+strings.ToUpper(f)+"}}}"))
		known[ResourceFlavors+"/"+f] = &o
	}
	group := func(flavors string) string {
		return "resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [" + flavors + "]}]"
	}
	const everyone = "namespaceSelector: {}\n"
	cases := map[string]struct {
		kind, spec string
		want       string // of the queue, as YAML; "": there is none
		unread     []string
		problem    string
	}{
		"alone it has what is nominal": {
			spec: "{namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 9}, {name: memory, nominalQuota: 36Gi}]}]}]}",
			want: everyone + "resources:\n- limit: \"9\"\n  name: cpu\n  quota: \"9\"\n- limit: 36Gi\n  name: memory\n  quota: 36Gi\nweight: 1\n",
		},
		"in a cohort it borrows": {
			spec: "{namespaceSelector: {}, cohortName: research, " + group("{name: x, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}") + "}",
			want: everyone + "parent: cohort-research\nresources:\n- name: nvidia.com/gpu\n  quota: \"8\"\nweight: 1\n",
		},
		"with limits, as v1beta1 has the cohort": {
			spec: "{namespaceSelector: {}, cohort: research, " + group("{name: x, resources: [{name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 4, lendingLimit: 2}]}") + ", fairSharing: {weight: 3}}",
			want: everyone + "parent: cohort-research\nresources:\n- lend: \"2\"\n  limit: \"12\"\n  name: nvidia.com/gpu\n  quota: \"8\"\nweight: 3\n",
		},
		"flavors that are GPU models": {
			spec: "{namespaceSelector: {}, cohortName: research, " + group("{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 0}]}, {name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 4, lendingLimit: 1}]}") + "}",
			want: everyone + `parent: cohort-research
resources:
- lend: "9"
  name: nvidia.com/gpu
  quota: "12"
- gpuModel: H100
  limit: "8"
  name: nvidia.com/gpu
  quota: "8"
- gpuModel: A100
  name: nvidia.com/gpu
  quota: "4"
weight: 1
`,
		},
		"no selector selects nobody": {spec: "{}", want: "namespaceSelector:\n  matchExpressions:\n  - key: kubernetes.io/metadata.name\n    operator: DoesNotExist\nweight: 1\n"},
		"a cohort": {
			kind: "Cohort", spec: "{parentName: research, " + group("{name: x, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}") + "}",
			want: "parent: cohort-research\nresources:\n- name: nvidia.com/gpu\n  quota: \"2\"\nweight: 1\n",
		},
		"fields without effect": {
			spec: "{namespaceSelector: {}, cohortName: nobody, queueingStrategy: StrictFIFO, stopPolicy: HoldAndDrain, flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: MayStopSearch}, preemption: {reclaimWithinCohort: Never, withinClusterQueue: LowerPriority, borrowWithinCohort: {policy: LowerPriority}}, admissionChecksStrategy: {admissionChecks: [{name: a}]}, " + group("{name: x}, {name: z}") + "}",
			want: everyone + "parent: cohort-nobody\nqueueingStrategy: StrictFIFO\nstopPolicy: HoldAndDrain\nweight: 1\n",
			unread: []string{
				"spec.preemption.reclaimWithinCohort (Any)",
				"spec.preemption.borrowWithinCohort (Never)",
				"spec.flavorFungibility.whenCanPreempt (TryNextFlavor)",
			},
		},
		"what makes no difference without a cohort, or with one flavor": {
			spec: "{namespaceSelector: {}, flavorFungibility: {whenCanPreempt: Preempt}, preemption: {reclaimWithinCohort: LowerPriority, withinClusterQueue: LowerPriority, borrowWithinCohort: {policy: LowerPriority}}, " + group("{name: x}") + "}",
			want: everyone + "weight: 1\n",
		},
		"when others are evicted, where nobody is": {
			spec: "{namespaceSelector: {}, cohortName: nobody, flavorFungibility: {whenCanPreempt: MayStopSearch}, " + group("{name: x}, {name: z}") + "}",
			want: everyone + "parent: cohort-nobody\nweight: 1\n",
		},
		"flavors that are none": {
			spec: "{namespaceSelector: {}, " + group("{name: x, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}, {name: z, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}") + "}",
			want: everyone + "resources:\n- limit: \"3\"\n  name: nvidia.com/gpu\n  quota: \"3\"\nweight: 1\n",
		},
		"below nothing": {spec: "{namespaceSelector: {}, " + group("{name: x, resources: [{name: nvidia.com/gpu, nominalQuota: -1}]}") + "}", problem: "spec.resourceGroups: amounts of nvidia.com/gpu in flavor x are below 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			read := ReadClusterQueue
			if c.kind == "Cohort" {
				read = ReadCohort
			}
			got := read(dialecttest.Object(t, "{metadata: {name: q}, spec: "+c.spec+"}"), known)
			text := ""
			if got.Queue != nil {
				b, err := yaml.Marshal(got.Queue.Spec)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
			for what, diff := range map[string]string{"queue": cmp.Diff(c.want, text), "unread": cmp.Diff(c.unread, got.Unread), "problem": cmp.Diff(c.problem, got.Problem)} {
				if diff != "" {
					t.Errorf("%s:\n%s", what, diff)
				}
			}
		})
	}
}

func TestOthers(t *testing.T) {
	if got := ReadLocalQueue(dialecttest.Object(t, "{spec: {clusterQueue: q, fairSharing: {weight: 2}}}")); got.Value.(*LocalQueue).ClusterQueue != "q" || !cmp.Equal(got.Unread, []string{"spec.fairSharing"}) {
		t.Errorf("got %+v", got)
	}
	if got := ReadLocalQueue(dialecttest.Object(t, "{}")); got.Problem == "" {
		t.Error("a LocalQueue of nothing is read")
	}
	if got := ReadResourceFlavor(dialecttest.Object(t, "{spec: {nodeTaints: [{key: a, colour: red}], topologyName: t}}")); !cmp.Equal(got.Unread, []string{"spec.nodeTaints[0].colour"}) {
		t.Errorf("got %+v", got)
	}
	if got := ReadPriorityClass(dialecttest.Object(t, "{value: 100}")); got.Value != int32(100) {
		t.Errorf("got %+v", got)
	}
	if got := ReadPriorityClass(dialecttest.Object(t, "{value: 10000000000}")); got.Problem == "" {
		t.Errorf("got %+v", got)
	}
}

// Whatever an object says, reading it ends, and a queue of it makes sense.
func FuzzRead(f *testing.F) {
	f.Add(`{"cohortName":"c","resourceGroups":[{"flavors":[{"name":"a","resources":[{"name":"cpu","nominalQuota":"9e9","lendingLimit":"1","borrowingLimit":"2"}]},{"name":"b","resources":[{"name":"cpu","nominalQuota":"1"}]}]}]}`)
	f.Fuzz(func(t *testing.T, spec string) {
		var tree any
		if yaml.Unmarshal([]byte(spec), &tree) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "q"}, "spec": tree}}
		for _, got := range []dialect.Object{ReadClusterQueue(o, world{}), ReadCohort(o, world{})} {
			if got.Queue == nil {
				continue
			}
			for _, r := range got.Queue.Spec.Resources {
				if r.Quota.Sign() < 0 || r.Limit != nil && r.Limit.Cmp(*r.Quota) < 0 || r.Lend != nil && (r.Lend.Sign() < 0 || r.Lend.Cmp(*r.Quota) > 0) {
					t.Errorf("%+v", r)
				}
			}
		}
		ReadLocalQueue(o)
		ReadResourceFlavor(o)
	})
}
