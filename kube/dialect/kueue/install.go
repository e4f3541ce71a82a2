package kueue

import (
	_ "embed"
	"strings"

	"github.com/berth-dev/berth/kube/dialect"
)

//go:embed install/clusterqueue.yaml
var clusterQueueDefinition string

//go:embed install/localqueue.yaml
var localQueueDefinition string

//go:embed install/resourceflavor.yaml
var flavorDefinition string

//go:embed install/cohort.yaml
var cohortDefinition string

//go:embed install/workloadpriorityclass.yaml
var priorityDefinition string

//go:embed install/workload.yaml
var workloadDefinition string

//go:embed install/topology.yaml
var topologyDefinition string

//go:embed install/admissioncheck.yaml
var checkDefinition string

//go:embed install/policy.yaml
var policies string

// Install has Kueue's kinds, written anew and open to fields that Berth does not know, and admission policies that do what Kueue's
// webhooks do. Kubernetes' own Workload is not served beside it.
func (kueue) Install() dialect.Install {
	return dialect.Install{
		Definitions: []string{clusterQueueDefinition, localQueueDefinition, flavorDefinition, cohortDefinition, priorityDefinition, topologyDefinition, checkDefinition, workloadDefinition},
		Objects:     strings.Split(policies, "\n---\n"),
		Hides:       []string{"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"},
	}
}
