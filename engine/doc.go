// Package engine decides where GPU work runs: changes in, plan out. It is a state machine without a
// client, a logger, a clock or random numbers; the live scheduler, explanations, what-if and simulation
// all run this same code. One goroutine owns a State.
//
//	s := engine.Load(snapshot, config)
//	rejected := s.Apply(changes...)   // what happened in the cluster
//	plan := s.Plan(now)               // what to do about it; the state is as before
//	s.Apply(plan.Changes...)          // once the plan is being carried out
//
// The law, held by a property test: after a history of changes, after the same history in another order,
// and after Load(Dump()), Plan, Explain and Dump return the same bytes.
package engine
