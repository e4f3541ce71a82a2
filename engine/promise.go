package engine

import "github.com/berth-dev/berth/engine/why"

// delays lists, as gates, the promises that the gang, whose members have been seated since the mark, would delay.
func (y *cycle) delays(g *gang, m mark) []why.Gate { return nil }

// promise gives the gang, which is blocked by the gates, a start time if it is among the first in line.
func (y *cycle) promise(g *gang, t turn, gates []why.Gate) {}
