package record

import (
	"encoding/json"
	"slices"

	"github.com/berth-dev/berth/engine"
)

// renamed is the first version of the values in which memory has the names that it has now.
const renamed = 6

// olderLine is a line with the names of values before version 6.
type olderLine struct {
	Segment *head        `json:"segment"`
	Live    *olderChange `json:"live"`
	Change  *olderChange `json:"change"`
	Cycle   *mark        `json:"cycle"`
}

type olderChange struct {
	engine.Change
	Spending *engine.QueueUsage      `json:"spending"`
	Lesson   *engine.RunTimeEstimate `json:"lesson"`
	Lapse    *engine.Degradation     `json:"lapse"`
}

// olderKinds names kinds as they are named now.
var olderKinds = map[engine.Kind]engine.Kind{"spending": engine.KindUsage, "lesson": engine.KindRunTimeEstimate, "lapse": engine.KindDegradation}

// decodeOlder reads a line of a segment whose values are of a version before 6.
func decodeOlder(b []byte) (line, error) {
	var v olderLine
	err := json.Unmarshal(b, &v)
	return line{Segment: v.Segment, Live: v.Live.now(), Change: v.Change.now(), Cycle: v.Cycle}, err
}

// byClaims is the first version of the values in which nodes say what they give through claims alone.
const byClaims = 28

// sayByClaims has the node of an older change give by claims whatever it has, if it offers devices: that was the rule.
func sayByClaims(c *engine.Change) {
	if c == nil || c.Node == nil || len(c.Node.Offers) == 0 {
		return
	}
	for _, a := range c.Node.Allocatable {
		c.Node.ByClaims = append(c.Node.ByClaims, a.Resource)
	}
	slices.Sort(c.Node.ByClaims)
}

// now is the change in the names of now.
func (c *olderChange) now() *engine.Change {
	if c == nil {
		return nil
	}
	out := c.Change
	if c.Spending != nil {
		out.Usage = c.Spending
	}
	if c.Lesson != nil {
		out.RunTimeEstimate = c.Lesson
	}
	if c.Lapse != nil {
		out.Degradation = c.Lapse
	}
	if out.Gone != nil {
		if kind, ok := olderKinds[out.Gone.Kind]; ok {
			out.Gone.Kind = kind
		}
	}
	return &out
}
