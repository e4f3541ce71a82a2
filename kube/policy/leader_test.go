package policy

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// validatorOf compiles a validating policy as the API server does. Expressions that fail deny, so that a test sees them.
func validatorOf(t *testing.T, name string) validating.Validator {
	t.Helper()
	var policy admissionv1.ValidatingAdmissionPolicy
	list, err := Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if strings.HasSuffix(m.Path, "/validatingadmissionpolicies/"+name) {
			if err := yaml.UnmarshalStrict(m.Text, &policy); err != nil {
				t.Fatal(err)
			}
		}
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	vars := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, vars, environment.StoredExpressions)
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, nil)
		if v.MessageExpression != "" {
			messages[len(messages)-1] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	fail := admissionv1.Fail
	compile := func(list []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(list, vars, environment.StoredExpressions)
	}
	return validating.NewValidator(compile(validations), matchconditions.NewMatcher(compile(conditions), &fail, "policy", "validate", name), compile(nil), compile(messages), &fail, nil)
}

// The policy rejects what is older than the lease, and lets pass what is newer and what is not Berth's.
func TestLeaderPolicy(t *testing.T) {
	const berth, admin, stock = "system:berth:scheduler", "kubernetes-admin", "system:kube-scheduler"
	holder, transitions := "host_1_2", int32(4)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "berth-scheduler", Namespace: "kube-system", UID: "u1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}
	released := lease.DeepCopy()
	released.Spec.HolderIdentity = new("")
	empty := lease.DeepCopy()
	empty.Spec = coordinationv1.LeaseSpec{}
	v := validatorOf(t, "berth-leader")
	for name, c := range map[string]struct {
		user, said string // "": no annotation
		lease      *coordinationv1.Lease
		want       string // in the message of the denial; "": it passes
	}{
		"the leader":                         {berth, "berth-scheduler/u1/4/host_1_2", lease, ""},
		"the leader, under another identity": {admin, "berth-scheduler/u1/4/host_1_2", lease, ""},
		"another holder":                     {berth, "berth-scheduler/u1/4/other", lease, "does not lead"},
		"another holder, any user":           {admin, "berth-scheduler/u1/4/other", lease, "does not lead"},
		"an earlier transition":              {berth, "berth-scheduler/u1/3/other", lease, "does not lead"},
		"an earlier transition of the same":  {berth, "berth-scheduler/u1/3/host_1_2", lease, "does not lead"},
		"ahead of the cache":                 {berth, "berth-scheduler/u1/5/next", lease, ""},
		"a lease that was made anew":         {berth, "berth-scheduler/u0/9/other", lease, "does not lead"},
		"after release":                      {berth, "berth-scheduler/u1/4/host_1_2", released, "does not lead"},
		"a lease that nobody ever held":      {berth, "berth-scheduler/u1/0/other", empty, "does not lead"},
		"a holder with slashes":              {berth, "berth-scheduler/u1/4/a/b/c", lease, "does not lead"},
		"without a lease":                    {berth, "", lease, "names the lease it leads by"},
		"illegible":                          {berth, "berth-scheduler/u1/four/host_1_2", lease, "names the lease it leads by"},
		"illegible, any user":                {admin, "x", lease, "names the lease it leads by"},
		"too large a number":                 {berth, "berth-scheduler/u1/99999999999999999999/x", lease, "names the lease it leads by"},
		"by another lease":                   {admin, "second-scheduler/u7/0/x", lease, ""},
		"by another lease, Berth's own":      {berth, "second-scheduler/u7/0/x", lease, ""},
		"the stock scheduler":                {stock, "", lease, ""},
		"an administrator":                   {admin, "", lease, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
			if c.said != "" {
				b.Annotations = map[string]string{"berth.dev/lease": c.said}
			}
			kind, pods := corev1.SchemeGroupVersion.WithKind("Binding"), corev1.SchemeGroupVersion.WithResource("pods")
			a := admission.NewAttributesRecord(b, nil, kind, "team", "p", pods, "binding", admission.Create, nil, false, &user.DefaultInfo{Name: c.user})
			got := v.Validate(context.Background(), pods, &admission.VersionedAttributes{Attributes: a, VersionedObject: admission.NewLazyObject(b), VersionedKind: kind}, c.lease, nil, apiservercel.RuntimeCELCostBudget, nil)
			denied := ""
			for _, d := range got.Decisions {
				if d.Action == validating.ActionDeny {
					denied += d.Message + "; "
				}
			}
			if (denied == "") != (c.want == "") || !strings.Contains(denied, c.want) {
				t.Errorf("denied: %q, want %q", denied, c.want)
			}
		})
	}
}
