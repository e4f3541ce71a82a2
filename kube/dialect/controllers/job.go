package controllers

import (
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// Coupled is the gang of an Indexed Job whose pods find each other by name: it runs all its indexes at one time, and its template
// has a subdomain, which is how Kubernetes' documentation has a Job's pods talk to each other. Any other Job's pods start one by one.
func Coupled(p *dialect.Pod) *dialect.Terms {
	if len(p.Owners) == 0 || p.Owners[0].Kind != "Job" || p.Owners[0].Coupled < 2 {
		return nil
	}
	job := &p.Owners[0]
	return &dialect.Terms{
		Keys: map[string]string{v1alpha1.KeyGang: "job." + job.Name, v1alpha1.KeySize: strconv.Itoa(job.Coupled)},
		Says: fmt.Sprintf("%d pods of Job %s start together: it is Indexed, has as many completions as parallelism, and its pods have a subdomain to find each other by", job.Coupled, job.Name),
	}
}
