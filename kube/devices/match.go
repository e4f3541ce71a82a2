package devices

import (
	"context"
	"fmt"
	"math"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// celFeatures are all that there are: an expression that the API server took must be understood.
var celFeatures = cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}

// NewMatcher evaluates selectors of devices. What it found is kept: for the same device, by pointer, it answers from memory.
// It may be used by several goroutines.
func NewMatcher() func(expression, driver string, d *resourcev1.Device) (bool, error) {
	return newMatcher(1<<10, 1<<20).matches
}

// What a selector may cost, in the units of CEL, of which a comparison takes some and a computer does two million a second.
// The API server lets one cost a million, which is little for a claim and too much for each of 40,000 devices, while no
// other pod is served. One that costs more on average is no longer evaluated, and fails.
const (
	costADevice = 256
	costAtAll   = 1 << 16 // beside that: few devices may cost much
)

// matcher remembers in two generations: expressions are tenants', who may write new ones for as long as they like, and a
// device is another one whenever its driver writes its slice. Once the young generation has as many programs or verdicts as
// it may, it is the old one, and what was not asked for since the last time is forgotten.
type matcher struct {
	mostPrograms, mostVerdicts int

	mu         sync.Mutex
	young, old map[string]*program // by expression
	verdicts   int                 // in the young generation
}

func newMatcher(mostPrograms, mostVerdicts int) *matcher {
	return &matcher{mostPrograms: mostPrograms, mostVerdicts: mostVerdicts, young: make(map[string]*program)}
}

type program struct {
	cel.CompilationResult
	found, before map[*resourcev1.Device]verdict // in this generation, and in the one before
	// room is what evaluations may still cost; below zero: none is made any more.
	room int64
}

type verdict struct {
	ok  bool
	err error
}

func (m *matcher) matches(expression, driver string, d *resourcev1.Device) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.program(expression)
	switch {
	case p.Error != nil:
		return false, fmt.Errorf("selector %q: %s", expression, p.Error.Detail)
	case p.room < 0:
		return false, fmt.Errorf("selector %q costs too much: more than %d units of CEL a device", expression, costADevice)
	}
	v, known := p.found[d]
	if known {
		return v.ok, v.err
	}
	if v, known = p.before[d]; !known {
		v = p.evaluate(driver, d)
	}
	p.found[d] = v
	if m.verdicts++; m.verdicts >= m.mostVerdicts {
		m.age()
	}
	return v.ok, v.err
}

func (p *program) evaluate(driver string, d *resourcev1.Device) (v verdict) {
	ok, details, err := p.DeviceMatches(context.Background(), cel.Device{Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity})
	p.room += costADevice
	if details != nil && details.ActualCost() != nil {
		p.room -= int64(min(*details.ActualCost(), math.MaxInt32))
	}
	p.room = min(p.room, costAtAll) // cheap devices do not pay for dear ones
	return verdict{ok, err}
}

// program is the expression's, of the young generation.
func (m *matcher) program(expression string) *program {
	if p := m.young[expression]; p != nil {
		return p
	}
	p := &program{found: make(map[*resourcev1.Device]verdict), room: costAtAll}
	if was := m.old[expression]; was != nil {
		p.CompilationResult, p.before, p.room = was.CompilationResult, was.found, was.room
	} else {
		p.CompilationResult = cel.GetCompiler(celFeatures).CompileCELExpression(expression, cel.Options{DisableCostEstimation: true})
	}
	if len(m.young) >= m.mostPrograms {
		m.age()
	}
	m.young[expression] = p
	return p
}

// age makes the young generation the old one.
func (m *matcher) age() {
	for _, p := range m.young { //archtest:any-order each is by itself
		p.before = nil
	}
	m.old, m.young, m.verdicts = m.young, make(map[string]*program), 0
}
