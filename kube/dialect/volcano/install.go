package volcano

import (
	_ "embed"
	"strings"

	"github.com/berth-dev/berth/kube/dialect"
)

//go:embed install/queue.yaml
var queueDefinition string

//go:embed install/podgroup.yaml
var groupDefinition string

//go:embed install/hypernode.yaml
var hyperNodeDefinition string

//go:embed install/objects.yaml
var objects string

// Install has Volcano's kinds, written anew and open to fields that Berth does not know, the two queues that Volcano's
// scheduler makes when it starts, and a policy for RayClusters that name a queue.
func (volcano) Install() dialect.Install {
	return dialect.Install{
		Definitions: []string{queueDefinition, groupDefinition, hyperNodeDefinition},
		Objects:     append(strings.Split(objects, "\n---\n"), dialect.RayPolicy("volcano", jobQueueKey, SchedulerName)...),
		Hides:       []string{"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"},
	}
}
