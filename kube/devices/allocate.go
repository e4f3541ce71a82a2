package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// allocateFor bounds the search for devices on one node. It is exponential in the worst case; a search that was broken off
// proves nothing.
const allocateFor = 500 * time.Millisecond

// programs is how many compiled selectors are kept.
const programs = 128

// everything is all that Kubernetes' allocator knows: objects that the API server took must be understood, whatever gates
// the cluster has.
var everything = structured.Features{
	AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true, DeviceBindingAndStatus: true,
	DeviceTaints: true, FractionalCapacityRange: true, ListTypeAttributes: true, OptionalNodeOperations: true,
	PartitionableDevices: true, PrioritizedList: true,
}

// Allocator says whether claims that have no devices can have them on the node, all together. With an error it does not know.
type Allocator = func(n *corev1.Node, wanted []*resourcev1.ResourceClaim) (bool, error)

// NewAllocator returns what makes an Allocator of the devices that drivers offer, of which the claims have some. Compiled
// selectors are shared by all that it makes.
func NewAllocator() func([]*resourcev1.ResourceSlice, []*resourcev1.DeviceClass, []*resourcev1.ResourceClaim) Allocator {
	cache := cel.NewCache(programs, celFeatures)
	return func(offered []*resourcev1.ResourceSlice, classes []*resourcev1.DeviceClass, claims []*resourcev1.ResourceClaim) Allocator {
		a, err := structured.NewAllocator(context.Background(), everything, allocatedIn(claims), classLister(classes), offered, cache)
		return func(n *corev1.Node, wanted []*resourcev1.ResourceClaim) (bool, error) {
			if err != nil {
				return false, err
			}
			ctx, cancel := context.WithTimeout(context.Background(), allocateFor)
			defer cancel()
			got, err := allocate(ctx, a, n, wanted)
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				return false, err
			case err != nil:
				return false, nil // an object that makes no sense: no devices are had with it anywhere
			}
			return len(got) == len(wanted), nil
		}
	}
}

// allocate asks Kubernetes' allocator, which relies on what its API server validated. Claims of a bundle were validated by
// nobody: what the allocator stumbles over makes no sense.
func allocate(ctx context.Context, a structured.Allocator, n *corev1.Node, wanted []*resourcev1.ResourceClaim) (got []resourcev1.AllocationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			got, err = nil, fmt.Errorf("allocate devices: %v", p)
		}
	}()
	return a.Allocate(ctx, n, wanted)
}

// allocatedIn is what the claims have. Who looks on, with admin access, has nothing.
func allocatedIn(claims []*resourcev1.ResourceClaim) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, c := range claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			switch {
			case ptr.Deref(r.AdminAccess, false):
			case r.ShareID != nil:
				s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
				s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			default:
				s.AllocatedDevices.Insert(id)
			}
		}
	}
	return s
}

// classLister are the classes, as the allocator asks for them.
type classLister []*resourcev1.DeviceClass

func (l classLister) List() ([]*resourcev1.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	i := slices.IndexFunc(l, func(c *resourcev1.DeviceClass) bool { return c.Name == name })
	if i < 0 {
		return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
	}
	return l[i], nil
}
