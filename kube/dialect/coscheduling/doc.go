// Package coscheduling reads PodGroups and ElasticQuotas of kubernetes-sigs/scheduler-plugins, which its coscheduling and capacity
// scheduling plugins know, as values. New is the dialect of their users. What those plugins would decide is no part of it.
package coscheduling
