package engine

import "github.com/berth-dev/berth/engine/why"

// makeRoom looks for work that may be evicted for the gang, which is blocked by the gates. If there is some, the plan
// evicts it and holds the place, and the gates that the gang then waits at are returned; nil: nobody is evicted.
func (y *cycle) makeRoom(g *gang, t turn, gates []why.Gate) []why.Gate { return nil }
