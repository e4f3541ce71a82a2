package facts

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Facts are what could be read of a cluster at one moment. They are not written to once they are gathered.
type Facts struct {
	At         time.Time
	Kubernetes string // version of the API server: "v1.37.1"
	Objects
	// Logs are the last lines of containers that run or ran, of pods that were asked about: by namespace/pod/container.
	// What a container wrote before it was last restarted is by namespace/pod/container/previous.
	Logs   map[string]string
	Unseen []Unseen
	// Served is what Berth's scheduler answered; nil: it was not asked, since nothing in question is its.
	Served *Served
	// Speaks are the dialects of other schedulers that Berth is taken to speak, where there is no cluster that tells.
	Speaks []string
	// Answers are the scheduler names that Berth is taken to answer there; none: those that objects of the cluster show.
	Answers []string
	// Matches evaluates a selector of devices (CEL) for a device of the driver; nil: selectors cannot be evaluated. Facts call it with the
	// same pointers again and again.
	Matches func(expression, driver string, d *resourcev1.Device) (bool, error)
	// NewAllocator makes an Allocator of devices that drivers offer, of which the claims have some; nil: it cannot be said which
	// claims can be met where.
	NewAllocator func(offered []*resourcev1.ResourceSlice, classes []*resourcev1.DeviceClass, claims []*resourcev1.ResourceClaim) Allocator

	edited map[types.UID]bool // objects that are not as they were read: what was said of them before does not hold
	placed []*corev1.Pod      // see Placed
	known  *schedulers        // see schedulers; of edited facts, as it was before

	once  sync.Once
	index *index
}

// Allocator says whether claims that have no devices can have them on the node, all together. With an error it does not know.
type Allocator = func(n *corev1.Node, wanted []*resourcev1.ResourceClaim) (bool, error)

// Unseen is something that could not be read. What is not known is not taken for absent.
type Unseen struct {
	Resource  string `json:"resource"`            // "nodes", "clusterqueues.kueue.x-k8s.io", "pods/log"
	Namespace string `json:"namespace,omitempty"` // "": everywhere
	Except    string `json:"except,omitempty"`    // everywhere but in this namespace, which was read
	Reason    string `json:"reason"`              // "forbidden", or what the API server said
}

// Sees says whether the resource was read, in the namespace; "" asks for the whole cluster. A kind that the cluster
// does not serve was read: there are none.
func (f *Facts) Sees(resource, namespace string) bool {
	return !slices.ContainsFunc(f.Unseen, func(u Unseen) bool {
		return u.Resource == resource && u.hides(namespace)
	})
}

func (u Unseen) hides(namespace string) bool {
	if u.Except != "" {
		return namespace != u.Except
	}
	return u.Namespace == "" || namespace == "" || u.Namespace == namespace
}

// String says what could not be read.
func (u Unseen) String() string {
	s := u.Resource
	if where := u.Where(); where != "" {
		s += " " + where
	}
	return s + ": " + u.Reason
}

// Where says in which namespaces it could not be read: "in namespace a", "outside namespace b"; "": nowhere.
func (u Unseen) Where() string {
	switch {
	case u.Except != "":
		return "outside namespace " + u.Except
	case u.Namespace != "":
		return "in namespace " + u.Namespace
	}
	return ""
}
