// Package storage is the storage of a simulated fleet: a provisioner such as cloud disks have. For a claim of its
// class it makes a volume in the zone of the node that a scheduler selected, after a while, and removes volumes
// whose claim is gone. Any scheduler can use it; which claim gets which volume is bound by Kubernetes' own
// controller, and what is in a volume by nobody: the kubelets show an empty one.
//
// It is a client of the API server that holds no state which a restart could not rebuild. Package fleet runs it.
package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/fleet/clock"
)

// Provisioner is what a StorageClass names to get its volumes here.
const Provisioner = "storage.berth.dev"

// Parameters of a StorageClass.
const (
	// FullParameter lists places, by comma, that have no room for new volumes: zones, or names of nodes that
	// are in none.
	FullParameter = "full"
	// TakesParameter is how long, in simulated time, it takes to make a volume. Without it between one and
	// three seconds, always the same for the same claim on the same node.
	TakesParameter = "takes"
	// FailsParameter says what does not work with volumes of the class once they are made: attach, or mount. It is among the
	// attributes of the volume, where kubelets find it.
	FailsParameter = "fails"
)

// Options configure Run.
type Options struct {
	Client kubernetes.Interface
	Node   func(name string) *corev1.Node // nil: there is none
	// Nodes are all that there are, in any order, for classes whose volumes are made before a pod needs them.
	Nodes func() []*corev1.Node
	Clock clock.Clock
	Log   *slog.Logger
}

const workers = 8

// maker makes and removes volumes.
type maker struct {
	Options
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	events  record.EventRecorder
	queue   workqueue.TypedRateLimitingInterface[item]

	mu   sync.Mutex
	work map[types.UID]work // by claim
}

// item is something to look at: a claim, or with an empty namespace a volume.
type item struct{ namespace, name string }

// work is a volume in the making.
type work struct {
	node  string
	ready time.Time
}

// Run provides storage until ctx ends, and then returns nil.
func Run(ctx context.Context, o Options) error {
	events := record.NewBroadcaster()
	defer events.Shutdown()
	defer events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: o.Client.CoreV1().Events("")}).Stop()
	factory := informers.NewSharedInformerFactory(o.Client, 0)
	claims, volumes, classes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes(), factory.Storage().V1().StorageClasses()
	m := &maker{
		Options: o, claims: claims.Lister(), volumes: volumes.Lister(), classes: classes.Lister(),
		events: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Provisioner}),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[item](50*time.Millisecond, 30*time.Second)),
		work:   make(map[types.UID]work),
	}
	_, err := claims.Informer().AddEventHandler(m.handler())
	_, more := volumes.Informer().AddEventHandler(m.handler())
	if err := errors.Join(err, more); err != nil {
		return fmt.Errorf("watch claims and volumes: %w", err)
	}
	classesKnown := classes.Informer().HasSyncedChecker()
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if !cache.WaitFor(ctx, "", claims.Informer().HasSyncedChecker(), volumes.Informer().HasSyncedChecker(), classesKnown) {
		return nil
	}
	m.serve(ctx)
	return nil
}

func (m *maker) handler() cache.ResourceEventHandler {
	look := func(o any) {
		if key, err := cache.DeletionHandlingObjectToName(o); err == nil {
			m.queue.Add(item{key.Namespace, key.Name})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, o any) { look(o) },
		DeleteFunc: func(o any) {
			if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
				m.forget(c.UID)
			}
			look(o)
		},
	}
}

func (m *maker) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, m.queue.ShutDown)()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i, quit := m.queue.Get()
				if quit {
					return
				}
				if err := m.look(ctx, i); err != nil && ctx.Err() == nil {
					m.Log.Debug("storage", "namespace", i.namespace, "name", i.name, "err", err)
					m.queue.AddRateLimited(i)
				} else {
					m.queue.Forget(i)
				}
				m.queue.Done(i)
			}
		})
	}
	wg.Wait()
}

func (m *maker) look(ctx context.Context, i item) error {
	if i.namespace == "" {
		return m.lookAtVolume(ctx, i.name)
	}
	return m.lookAtClaim(ctx, i)
}
