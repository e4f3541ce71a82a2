package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// mutator is a policy as the API server compiles it, with the API server's own code.
type mutator struct {
	policy   admissionv1.MutatingAdmissionPolicy
	compiler *plugincel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
}

func mutators(t testing.TB) []*mutator {
	list, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var out []*mutator
	for _, m := range list {
		if !strings.Contains(m.Path, "/mutatingadmissionpolicies/berth-user") {
			continue
		}
		x := &mutator{}
		if err := yaml.UnmarshalStrict(m.Text, &x.policy); err != nil {
			t.Fatal(err)
		}
		x.compile(t)
		out = append(out, x)
	}
	return out
}

func (m *mutator) compile(t testing.TB) {
	spec, opts := &m.policy.Spec, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	m.compiler = compiler
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, opts, environment.NewExpressions)
	var conditions []plugincel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	m.matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, opts, environment.NewExpressions), spec.FailurePolicy, "policy", "validate", m.policy.Name)
	opts.HasPatchTypes = true
	for _, x := range spec.Mutations {
		got := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: x.JSONPatch.Expression}, opts, environment.NewExpressions)
		for _, err := range got.CompilationErrors() {
			t.Fatalf("%s: %v", m.policy.Name, err)
		}
		m.patchers = append(m.patchers, patch.NewJSONPatcher(got))
	}
}

// matches says whether the policy is about the resource and operation.
func (m *mutator) matches(gvr schema.GroupVersionResource, op admission.Operation) bool {
	has := func(list []string, v string) bool { return slices.Contains(list, v) || slices.Contains(list, "*") }
	return slices.ContainsFunc(m.policy.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
		return has(r.APIGroups, gvr.Group) && has(r.APIVersions, gvr.Version) && has(r.Resources, gvr.Resource) &&
			slices.Contains(r.Operations, admissionv1.OperationType(op))
	})
}

// stampers are the names that each identity may stamp; "*": all.
var stampers = map[string][]string{"controller": {"*"}, "robot": {"ann"}}

func mayStamp(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	names := stampers[a.GetUser().GetName()]
	if a.GetVerb() == "stamp" && a.GetAPIGroup() == "berth.dev" && a.GetResource() == "users" && a.GetNamespace() == "" &&
		(slices.Contains(names, "*") || slices.Contains(names, a.GetName())) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// admit is what becomes of the object when the identity creates it or, where there is an old one, updates it.
func admit(t testing.TB, all []*mutator, identity string, object, old *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	gvk := object.GroupVersionKind()
	gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
	op, options := admission.Create, runtime.Object(&metav1.CreateOptions{})
	var was runtime.Object
	if old != nil {
		op, options, was = admission.Update, &metav1.UpdateOptions{}, typed(t, old)
	}
	authz := authorizer.AuthorizerFunc(mayStamp)
	now := typed(t, object)
	for _, m := range all {
		if !m.matches(gvr, op) {
			continue
		}
		attrs := admission.NewAttributesRecord(now, was, gvk, "lab", object.GetName(), gvr, "", op, options, false, &user.DefaultInfo{Name: identity})
		versioned := &admission.VersionedAttributes{Attributes: attrs, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(now), VersionedOldObject: admission.NewLazyObject(was)}
		match := m.matcher.Match(m.compiler.CreateContext(t.Context()), versioned, nil, authz)
		if match.Error != nil {
			t.Fatal(match.Error)
		}
		if !match.Matches {
			continue
		}
		for _, p := range m.patchers {
			got, err := p.Patch(m.compiler.CreateContext(t.Context()), patch.Request{
				MatchedResource: gvr, VersionedAttributes: versioned, ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme),
				OptionalVariables: plugincel.OptionalVariableBindings{Authorizer: authz},
			}, celconfig.RuntimeCELCostBudget)
			if err != nil {
				t.Fatalf("%s %s of %s: %v", op, gvk.Kind, identity, err)
			}
			now = got
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(now)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: fields}
}

// typed is the object as the API server has it: of a Go type, unless its kind is a custom one.
func typed(t testing.TB, o *unstructured.Unstructured) runtime.Object {
	t.Helper()
	out, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return o
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// users are all names in the object, by path.
func users(o any, path string) map[string]string {
	out := make(map[string]string)
	switch o := o.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if key == "berth.dev/user" {
				out[strings.TrimSuffix(path, "/annotations")] = fmt.Sprint(o[key])
				continue
			}
			maps.Copy(out, users(o[key], path+"/"+key))
		}
	case []any:
		for i := range o {
			maps.Copy(out, users(o[i], fmt.Sprint(path, "/", i)))
		}
	}
	return out
}

// kinds are objects with the name NAME in all places that reach pods.
var kinds = []string{
	`{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {}}`,
	`{apiVersion: v1, kind: ReplicationController, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: batch/v1, kind: Job, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}`,
	`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {jobTemplate: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {}}`,
	`{apiVersion: scheduling.k8s.io/v1beta1, kind: Workload, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {}}`,
	`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {replicatedJobs: [` +
		`{name: a, template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}},` +
		`{name: b, template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}]}}`,
	`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {leaderWorkerTemplate: {` +
		`leaderTemplate: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}, workerTemplate: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}`,
	`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {headGroupSpec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}},` +
		`workerGroupSpecs: [{template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}, {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}]}}`,
	`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {submitterPodTemplate: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}},` +
		`rayClusterSpec: {headGroupSpec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}, workerGroupSpecs: [{template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}]}}}`,
	`{apiVersion: ray.io/v1, kind: RayService, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {` +
		`rayClusterConfig: {headGroupSpec: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}, workerGroupSpecs: [{template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}]}}}`,
	`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {pytorchReplicaSpecs: {` +
		`Master: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}, Worker: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {tfReplicaSpecs: {PS: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {mpiReplicaSpecs: {Launcher: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: kubeflow.org/v1, kind: XGBoostJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {xgbReplicaSpecs: {Master: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: kubeflow.org/v1, kind: PaddleJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {paddleReplicaSpecs: {Worker: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: kubeflow.org/v1, kind: JAXJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {jaxReplicaSpecs: {Worker: {template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}}}}`,
	`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {}}`,
	`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {tasks: [{template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}}]}}`,
}

// in is the object with the name in it; without a name there are no annotations, and no metadata in templates.
func in(t testing.TB, text, name string) *unstructured.Unstructured {
	t.Helper()
	if name == "" {
		text = strings.ReplaceAll(text, "metadata: {annotations: {berth.dev/user: NAME}}, ", "")
		text = strings.ReplaceAll(text, ", annotations: {berth.dev/user: NAME}", "")
	}
	out := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "NAME", name)), &out.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// Who creates an object is the user in all places of it that reach pods, whatever it says; those who may stamp a name
// may say one.
func TestUserOfWhatIsCreated(t *testing.T) {
	all := mutators(t)
	for _, text := range kinds {
		for _, c := range []struct{ identity, says, want string }{
			{"ann", "", "ann"}, {"ann", "bob", "ann"}, {"ann", "ann", "ann"},
			{"controller", "bob", "bob"}, {"controller", "", "controller"},
			{"robot", "ann", "ann"}, {"robot", "bob", "robot"}, {"system:serviceaccount:a:b", "bob", "system:serviceaccount:a:b"},
		} {
			want := users(in(t, text, c.want).Object, "")
			got := admit(t, all, c.identity, in(t, text, c.says), nil)
			if diff := cmp.Diff(want, users(got.Object, "")); diff != "" {
				t.Errorf("%s of %s, which says %q: %s", got.GetKind(), c.identity, c.says, diff)
			}
		}
	}
}

// What a workload controller makes of an object that has no name, because it was there before the policy, has none either: a
// Deployment whose ReplicaSets never get its own template would make them for ever. An owner in the object alone is no way
// around it.
func TestUserOfWhatControllersMake(t *testing.T) {
	all := mutators(t)
	owned := strings.Replace(kinds[4], "name: x", "name: x, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: d, uid: u, controller: true}]", 1)
	metadata := strings.Replace(owned, "NAME", "ann", 1)
	for _, c := range []struct {
		text, identity, says string
		want                 map[string]string
	}{
		{owned, "controller", "", map[string]string{}},
		{owned, "controller", "ann", map[string]string{"/metadata": "ann", "/spec/template/metadata": "ann"}},
		{strings.ReplaceAll(metadata, "{annotations: {berth.dev/user: NAME}}", "{}"), "controller", "-", map[string]string{"/metadata": "ann"}},
		{owned, "ann", "", map[string]string{"/metadata": "ann", "/spec/template/metadata": "ann"}},
		{owned, "robot", "", map[string]string{"/metadata": "robot", "/spec/template/metadata": "robot"}},
		{strings.Replace(owned, ", controller: true", "", 1), "controller", "", map[string]string{"/metadata": "controller", "/spec/template/metadata": "controller"}},
	} {
		got := admit(t, all, c.identity, in(t, c.text, c.says), nil)
		if diff := cmp.Diff(c.want, users(got.Object, "")); diff != "" {
			t.Errorf("of %s, which says %q: %s", c.identity, c.says, diff)
		}
	}
}

// An update keeps the name, also where there was none, unless whoever makes it may stamp the new one. What else changes is
// left alone. Pods are not updated: their keys are kept by another policy.
func TestUserOfWhatIsUpdated(t *testing.T) {
	all := mutators(t)
	for _, text := range kinds {
		if strings.Contains(text, "kind: Pod,") {
			continue
		}
		for _, c := range []struct{ identity, had, says, want string }{
			{"bob", "ann", "bob", "ann"}, {"bob", "ann", "", "ann"}, {"bob", "ann", "ann", "ann"}, {"bob", "", "bob", ""}, {"bob", "", "", ""},
			{"controller", "ann", "bob", "bob"}, {"controller", "ann", "ann", "ann"}, {"controller", "", "", ""},
			{"robot", "bob", "ann", "ann"}, {"robot", "ann", "bob", "ann"},
		} {
			now := in(t, text, c.says)
			now.SetLabels(map[string]string{"changed": "yes"})
			got := admit(t, all, c.identity, now, in(t, text, c.had))
			want := users(in(t, text, c.want).Object, "")
			if diff := cmp.Diff(want, users(got.Object, "")); diff != "" {
				t.Errorf("%s of %q, updated by %s, who says %q: %s", got.GetKind(), c.had, c.identity, c.says, diff)
			}
			if got.GetLabels()["changed"] != "yes" {
				t.Errorf("%s: %v", got.GetKind(), got.Object)
			}
		}
	}
}

// A name on one template alone, or another on each, is no way around it.
func TestUserInOnePlaceOnly(t *testing.T) {
	all := mutators(t)
	for _, text := range kinds {
		for i := range strings.Count(text, "NAME") {
			one := text
			for j := range strings.Count(text, "NAME") {
				name := fmt.Sprint("other-", j)
				if j == i {
					name = "bob"
				}
				one = strings.Replace(one, "NAME", name, 1)
			}
			got := admit(t, all, "ann", in(t, one, "-"), nil)
			if diff := cmp.Diff(users(in(t, text, "ann").Object, ""), users(got.Object, "")); diff != "" {
				t.Errorf("%s: %s", got.GetKind(), diff)
			}
		}
	}
}

// Objects that lack what is usually there are admitted: a policy that fails would keep everybody from creating them.
func TestUserOfOddObjects(t *testing.T) {
	all := mutators(t)
	for _, text := range []string{
		`{apiVersion: v1, kind: Pod, metadata: {name: x}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: x, annotations: {berth.dev/user: ""}}}`,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x}}`,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {}}}`,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {jobTemplate: {}}}`,
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: []}}`,
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{name: a}]}}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {}, workerGroupSpecs: [{}]}}`,
		`{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: x}, spec: {rayClusterSpec: {}}}`,
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x}, spec: {pytorchReplicaSpecs: {Worker: {}}}}`,
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {leaderWorkerTemplate: {}}}`,
		`{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: x}, spec: {tasks: [{}]}}`,
		`{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: x}}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: null}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x, annotations: null}, spec: {headGroupSpec: null, workerGroupSpecs: null}}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {template: null}, workerGroupSpecs: [null, {template: null}]}}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x}, spec: {headGroupSpec: {template: {metadata: null}}, workerGroupSpecs: [{template: {metadata: {annotations: null}}}]}}`,
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x}, spec: {replicatedJobs: [{template: null}, {template: {metadata: null, spec: {template: {metadata: {annotations: null}}}}}, {template: {spec: null}}]}}`,
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x}, spec: {pytorchReplicaSpecs: {Worker: null}}}`,
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x}, spec: {pytorchReplicaSpecs: null}}`,
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: x}, spec: {leaderWorkerTemplate: {leaderTemplate: null}}}`,
	} {
		t.Run(text, func(t *testing.T) {
			got := admit(t, all, "ann", in(t, text, ""), nil)
			if by := users(got.Object, "")["/metadata"]; by != "ann" {
				t.Errorf("%v", got.Object)
			}
			admit(t, all, "bob", got, in(t, text, ""))
		})
	}
}

// Large objects are within what an expression may cost.
func TestUserOfLargeObjects(t *testing.T) {
	all := mutators(t)
	place := "{metadata: {annotations: {berth.dev/user: NAME}}, spec: {}}"
	for _, text := range []string{
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {replicatedJobs: [` +
			strings.Repeat(`{template: {metadata: {annotations: {berth.dev/user: NAME}}, spec: {template: `+place+`}}},`, 200) + `]}}`,
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: x, annotations: {berth.dev/user: NAME}}, spec: {headGroupSpec: {template: ` + place + `}, workerGroupSpecs: [` +
			strings.Repeat(`{template: `+place+`},`, 400) + `]}}`,
	} {
		got := admit(t, all, "ann", in(t, text, "bob"), nil)
		if diff := cmp.Diff(users(in(t, text, "ann").Object, ""), users(got.Object, "")); diff != "" {
			t.Errorf("%s: %s", got.GetKind(), diff)
		}
		admit(t, all, "bob", in(t, text, "bob"), got)
	}
}

// BenchmarkUser is what the policies add to one creation, in the API server: matching, evaluation and the patch.
func BenchmarkUser(b *testing.B) {
	all := mutators(b)
	pod, job := kinds[0], kinds[2]
	for _, c := range []struct{ name, text, identity, says string }{
		{"pod by a person", pod, "ann", ""}, {"pod by a controller", pod, "controller", "ann"}, {"job by a person", job, "ann", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := in(b, c.text, c.says)
			for b.Loop() {
				admit(b, all, c.identity, o, nil)
			}
		})
	}
}
