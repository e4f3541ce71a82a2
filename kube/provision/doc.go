// Package provision carries out what capacity/launch decides: it writes Machines, which a provider answers, and deletes them to give
// machines back. `berth up` runs it beside the scheduler, whose snapshot it decides by; the provider is the fleet.
//
// It keeps nothing. A Machine is written before anything is asked of a provider, under a name that follows from the need, and what a
// provider refused is written into the status of the Pool before its Machine is deleted. Whoever is killed at any moment, and starts
// again, finds what it was about to do in the API server, and does the rest.
package provision
