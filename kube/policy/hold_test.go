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
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/convert"
)

// mayHold lets operator hold workloads of namespace lab, and the controllers stamp users.
func mayHold(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	holds := a.GetUser().GetName() == "operator" && a.GetVerb() == "hold" && a.GetResource() == "workloads" && a.GetNamespace() == "lab"
	stamps := a.GetUser().GetName() == "controller" && a.GetVerb() == "stamp" && a.GetResource() == "users"
	if a.GetAPIGroup() == "berth.dev" && (holds || stamps) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// An operator's hold is begun and ended by those who may hold workloads, whatever the object says besides; all else is the
// author's own business.
func TestHoldPolicy(t *testing.T) {
	v := validatorOf(t, "berth-hold")
	job := func(space, annotation, label string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "train"}}
		if annotation != "" {
			j.Annotations = map[string]string{"berth.dev/hold": annotation, "other": "x"}
		}
		if label != "" {
			j.Labels = map[string]string{"berth.dev/hold": label}
		}
		return j
	}
	words := []string{"", "true", "false", "operator", " operator "}
	for _, was := range words {
		for _, is := range words {
			for _, label := range []bool{false, true} {
				if label && strings.Contains(was+is, " ") { // no label has blanks
					continue
				}
				for _, create := range []bool{false, true} {
					for _, who := range []string{"tenant", "operator", "controller"} {
						for _, space := range []string{"lab", "team"} {
							old, now := job(space, was, ""), job(space, is, "")
							if label {
								old, now = job(space, "", was), job(space, "", is)
							}
							began, ends := strings.TrimSpace(is) == "operator", strings.TrimSpace(was) == "operator"
							if create {
								ends = false
							}
							want := began == ends || who == "controller" || who == "operator" && space == "lab"
							got := holdVerdict(v, now, old, create, who)
							if (got == "") != want {
								t.Errorf("%s in %s, create %v, label %v, %q to %q: %q, want allowed %v", who, space, create, label, was, is, got, want)
							}
						}
					}
				}
			}
		}
	}
	if got := holdVerdict(v, job("lab", "", ""), job("lab", "operator", ""), false, "tenant"); !strings.Contains(got, "an operator holds it: only who may hold workloads of namespace lab") {
		t.Errorf("a tenant who releases it is told %q", got)
	}
}

// holdVerdict is what the policy says against the object; "": nothing.
func holdVerdict(v validating.Validator, now, old *batchv1.Job, create bool, who string) string {
	op, was, options := admission.Update, runtime.Object(old), runtime.Object(&metav1.UpdateOptions{})
	lazy := admission.NewLazyObject(old)
	if create {
		op, was, options, lazy = admission.Create, nil, &metav1.CreateOptions{}, admission.NewLazyObject(nil)
	}
	gvk, gvr := batchv1.SchemeGroupVersion.WithKind("Job"), batchv1.SchemeGroupVersion.WithResource("jobs")
	a := admission.NewAttributesRecord(now, was, gvk, now.Namespace, now.Name, gvr, "", op, options, false, &user.DefaultInfo{Name: who})
	got := v.Validate(context.Background(), gvr, &admission.VersionedAttributes{
		Attributes: a, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(now), VersionedOldObject: lazy,
	}, nil, nil, apiservercel.RuntimeCELCostBudget, authorizer.AuthorizerFunc(mayHold))
	for _, d := range got.Decisions {
		if d.Action != validating.ActionAdmit {
			return fmt.Sprint(d.Message, d.Evaluation)
		}
	}
	return ""
}

// The kinds whose hold the scheduler reads are those whose hold is guarded, and whose users are stamped.
func TestGuardsAllOwners(t *testing.T) {
	want := make(map[string]bool)
	for _, k := range convert.OwnerKinds() {
		want[k.Plural+"."+k.Group] = true
	}
	list, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for suffix, others := range map[string][]string{
		"/validatingadmissionpolicies/berth-hold": {"pods."},
		"/mutatingadmissionpolicies/berth-user":   {"podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"},
	} {
		for _, m := range list {
			if !strings.HasSuffix(m.Path, suffix) {
				continue
			}
			var p struct {
				Spec struct {
					MatchConstraints struct {
						ResourceRules []admissionv1.NamedRuleWithOperations
					}
				}
			}
			if err := yaml.Unmarshal(m.Text, &p); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]bool)
			for _, r := range p.Spec.MatchConstraints.ResourceRules {
				for _, resource := range r.Resources {
					got[resource+"."+r.APIGroups[0]] = true
				}
			}
			for _, o := range others {
				delete(got, o)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("%s (-read +guarded):\n%s", suffix, diff)
			}
		}
	}
}
