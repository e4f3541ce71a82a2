package kai

import (
	_ "embed"
	"strings"

	"github.com/berth-dev/berth/kube/dialect"
)

//go:embed install/queue.yaml
var queueDefinition string

//go:embed install/podgroup.yaml
var groupDefinition string

//go:embed install/topology.yaml
var topologyDefinition string

//go:embed install/objects.yaml
var objects string

// Install has KAI's kinds, written anew and open to fields that Berth does not know, its priority classes, the queues of its
// documentation's first page, and a policy for RayClusters that name a queue.
func (kai) Install() dialect.Install {
	return dialect.Install{
		Definitions: []string{queueDefinition, groupDefinition, topologyDefinition},
		Objects:     append(strings.Split(objects, "\n---\n"), dialect.RayPolicy("kai", QueueLabel, SchedulerName)...),
		Hides:       []string{"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"},
	}
}
