package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

const launching = `
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: h200}
spec:
  gpus: [{model: H200, count: 8}]
  reservations: [block]
  launch:
    from: [reserved, on-demand]
    zones: [us-east-2a, us-east-2b]
    min: 0
    max: 8
    headroom: 1
    consolidateAfter: 10m
`

// TestLaunchIsValidated has the API server's own validation refuse what cannot be launched.
func TestLaunchIsValidated(t *testing.T) {
	validate := serverValidation(t, v1alpha1.CRD)
	if errs := validate(parse(t, launching)); len(errs) > 0 {
		t.Fatalf("refused: %v", errs.ToAggregate())
	}
	for _, c := range []struct{ was, now, want string }{
		{"min: 0", "min: 9", "min must be at most max"},
		{"min: 0", "static: 4", "leave out min, max and headroom"},
		{"  launch:", "  nodes: 2\n  launch:", "leave out nodes and nodeNames"},
		{"on-demand]", "free]", "spec.launch.from"},
		{"reserved, on-demand", "", "spec.launch.from"},
		{"consolidateAfter: 10m", "consolidation: Sometimes", "spec.launch.consolidation"},
		{"consolidateAfter: 10m", "consolidateAfter: soon", "spec.launch.consolidateAfter"},
		{"  reservations:", "  selects: {nodePool: gpu}\n  reservations:", "selects is for nodes that others make"},
	} {
		errs := validate(parse(t, strings.Replace(launching, c.was, c.now, 1)))
		if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.now, errs.ToAggregate(), c.want)
		}
	}
	for _, spec := range []string{`selects: {nodePool: gpu}`, `selects: {labels: {team: ml}}`, `nodes: 0`} {
		if errs := validate(parse(t, "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: p}\nspec: {"+spec+"}")); len(errs) > 0 {
			t.Errorf("%s: refused: %v", spec, errs.ToAggregate())
		}
	}
	if errs := validate(parse(t, "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: p}\nspec: {selects: {nodePool: a, labels: {b: c}}}")); len(errs) == 0 {
		t.Error("labels and a NodePool: no error")
	}
}

// TestLaunchDefaults fills in what is left out, and draws on reservations only where there are some.
func TestLaunchDefaults(t *testing.T) {
	for _, c := range []struct {
		reservations []string
		want         v1alpha1.CapacityType
	}{{nil, v1alpha1.CapacityOnDemand}, {[]string{"block"}, v1alpha1.CapacityReserved}} {
		p := &v1alpha1.Pool{Spec: v1alpha1.PoolSpec{Reservations: c.reservations, Launch: &v1alpha1.LaunchPolicy{}, Topology: v1alpha1.Topology{Zone: "a"}}}
		p.Name = "p"
		v1alpha1.Default(p)
		l := p.Spec.Launch
		if len(l.From) != 1 || l.From[0] != c.want || len(l.Zones) != 1 || l.Zones[0] != "a" || *l.Max != 1000 || *p.Spec.Nodes != 0 {
			t.Errorf("%v: %+v", c.reservations, l)
		}
		if errs := v1alpha1.Validate(p); len(errs) > 0 {
			t.Errorf("%v: %v", c.reservations, errs.ToAggregate())
		}
		l.From = []v1alpha1.CapacityType{v1alpha1.CapacityReserved}
		if errs := v1alpha1.Validate(p); (len(errs) > 0) != (len(c.reservations) == 0) {
			t.Errorf("from reserved with %v: %v", c.reservations, errs.ToAggregate())
		}
	}
}

const machine = `
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: train-0a1b2c3d-0}
spec: {pool: h200, index: 0, zone: us-east-2a, capacityType: reserved, reservation: block, for: team/train}
status: {phase: Failed, error: InsufficientInstanceCapacity}
`

func TestMachineIsValidated(t *testing.T) {
	validate := serverValidation(t, v1alpha1.MachineCRD)
	if errs := validate(parse(t, machine)); len(errs) > 0 {
		t.Fatalf("refused: %v", errs.ToAggregate())
	}
	for _, c := range []struct{ was, now, want string }{
		{"capacityType: reserved", "capacityType: spot", "reservation is required for capacityType reserved"},
		{"reservation: block, ", "", "reservation is required for capacityType reserved"},
		{"train-0a1b2c3d-0", "Train", "metadata.name becomes the name of a node"},
		{"phase: Failed", "phase: Lost", "status.phase"},
		{"index: 0", "index: -1", "spec.index"},
	} {
		errs := validate(parse(t, strings.Replace(machine, c.was, c.now, 1)))
		if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.now, errs.ToAggregate(), c.want)
		}
	}
}
