package policy

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Terms is the name of the policy that keeps the terms of admitted pods as they are, and of its binding.
const Terms = "berth-terms"

// GuardsTerms says whether the policy Terms is in force: it is there, denies, holds everywhere, and knows of the sealed terms
// that pods are bound with. One that an earlier version of Berth installed does not.
func GuardsTerms(ctx context.Context, client kubernetes.Interface) (bool, error) {
	api := client.AdmissionregistrationV1()
	policy, err := api.ValidatingAdmissionPolicies().Get(ctx, Terms, metav1.GetOptions{})
	if err != nil {
		return false, unlessGone(err)
	}
	binding, err := api.ValidatingAdmissionPolicyBindings().Get(ctx, Terms, metav1.GetOptions{})
	if err != nil {
		return false, unlessGone(err)
	}
	return guards(&policy.Spec) && binds(&binding.Spec), nil
}

func guards(s *admissionv1.ValidatingAdmissionPolicySpec) bool {
	if s.FailurePolicy != nil && *s.FailurePolicy != admissionv1.Fail {
		return false
	}
	return slices.ContainsFunc(s.Variables, func(v admissionv1.Variable) bool {
		return v.Name == "keys" && strings.Contains(v.Expression, `"`+v1alpha1.KeyTerms+`"`) && strings.Contains(v.Expression, `"`+v1alpha1.KeySeal+`"`)
	})
}

func binds(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) bool {
	return s.PolicyName == Terms && s.ParamRef == nil && everywhere(s.MatchResources) && slices.Contains(s.ValidationActions, admissionv1.Deny)
}

// everywhere says whether the resources are all that the policy is about. The API server fills in selectors that select all.
func everywhere(m *admissionv1.MatchResources) bool {
	all := func(s *metav1.LabelSelector) bool { return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 }
	return m == nil || all(m.NamespaceSelector) && all(m.ObjectSelector) && len(m.ResourceRules)+len(m.ExcludeResourceRules) == 0
}

func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
