package dialect

import "strings"

// RayPolicy is an admission policy, and its binding, that does for RayClusters what KubeRay's operator does where it is configured with
// the project's scheduler: a RayCluster with the label has its pods scheduled by it, unless their templates name another
// (ray-operator/controllers/ray/batchscheduler, AddMetadataToChildResource, KubeRay v1.6.0). The label's value is read off the RayCluster
// itself. RayJobs and RayServices hand their labels on to a RayCluster.
func RayPolicy(dialect, label, scheduler string) []string {
	r := strings.NewReplacer("DIALECT", dialect, "LABEL", label, "SCHEDULER", scheduler)
	return []string{r.Replace(rayPolicy), r.Replace(rayBinding)}
}

const rayPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: berth-DIALECT-ray
  labels: {app.kubernetes.io/managed-by: berth}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [ray.io], apiVersions: ["*"], operations: [CREATE], resources: [rayclusters], scope: Namespaced}
  matchConditions:
  - name: asks-for-the-scheduler
    expression: object.metadata.?labels[?"LABEL"].orValue("") != ""
  variables:
  - name: templates
    expression: >-
      (has(object.spec.headGroupSpec) ? [{"at": dyn("/spec/headGroupSpec"), "of": dyn(object.spec.headGroupSpec.template.spec)}] : [])
      + (has(object.spec.workerGroupSpecs)
        ? object.spec.workerGroupSpecs.transformList(i, g, {"at": dyn("/spec/workerGroupSpecs/" + string(i)), "of": dyn(g.template.spec)}) : [])
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        variables.templates.filter(t, !has(t.of.schedulerName) || t.of.schedulerName in ["", "default-scheduler"])
        .map(t, JSONPatch{op: "add", path: string(t.at) + "/template/spec/schedulerName", value: "SCHEDULER"})
`

const rayBinding = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: berth-DIALECT-ray
  labels: {app.kubernetes.io/managed-by: berth}
spec:
  policyName: berth-DIALECT-ray
`
