package scheduler

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// RouteLabel, with the value "true" on a namespace, sends the pods that are made in it to Berth.
const RouteLabel = "berth.dev/schedule"

// routeName is of the policy and of its binding.
const routeName = "berth-schedule"

// route makes the API server itself put schedulerName on pods of labelled namespaces: no webhook that can be
// down. Pods that chose another scheduler, or have a node already, are left alone. Should the policy fail, pods
// are made as they were written.
func route(ctx context.Context, client kubernetes.Interface) error {
	api := client.AdmissionregistrationV1()
	if err := apply(ctx, api.MutatingAdmissionPolicies(), routePolicy()); err != nil {
		return err
	}
	return apply(ctx, api.MutatingAdmissionPolicyBindings(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: named("", routeName),
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: routeName,
			MatchResources: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{RouteLabel: "true"}},
			},
		},
	})
}

func routePolicy() *admissionv1.MutatingAdmissionPolicy {
	ignore, every := admissionv1.Ignore, admissionv1.NamespacedScope
	return &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: named("", routeName),
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &ignore,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &every},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name:       "chose-no-scheduler",
				Expression: `(!has(object.spec.schedulerName) || object.spec.schedulerName == "" || object.spec.schedulerName == "` + corev1.DefaultSchedulerName + `") && !has(object.spec.nodeName)`,
			}},
			Mutations: []admissionv1.Mutation{{
				PatchType:          admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{schedulerName: "` + DefaultName + `"}}`},
			}},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		},
	}
}
