package cloud

import (
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// awsStates are the states of `aws ec2 describe-capacity-reservations`.
var awsStates = map[string]v1alpha1.ReservationState{
	"active": v1alpha1.ReservationActive, "expired": v1alpha1.ReservationExpired, "cancelled": v1alpha1.ReservationExpired, "pending": v1alpha1.ReservationScheduled,
	"scheduled": v1alpha1.ReservationScheduled, "assessing": v1alpha1.ReservationScheduled, "delayed": v1alpha1.ReservationScheduled, "payment-pending": v1alpha1.ReservationScheduled,
	"payment-failed": v1alpha1.ReservationFailed, "failed": v1alpha1.ReservationFailed, "unsupported": v1alpha1.ReservationFailed, "unavailable": v1alpha1.ReservationFailed,
	"cancelling": v1alpha1.ReservationExpiring,
}

// readAWS reads a capacity block or an on-demand capacity reservation.
func readAWS(f *fields) (r v1alpha1.Reservation, err error) {
	r.Spec.ID = f.text("CapacityReservationId")
	r.Name = objectName(r.Spec.ID)
	r.Spec.InstanceType, r.Spec.Zone = f.text("InstanceType"), f.text("AvailabilityZone")
	r.Spec.Start, r.Spec.End = f.time("StartDate"), f.time("EndDate")
	if f.text("InstanceMatchCriteria") == "open" {
		r.Spec.Match = v1alpha1.MatchOpen
	} else {
		r.Spec.Match = v1alpha1.MatchTargeted
	}
	total, ok := f.number("TotalInstanceCount")
	if !ok {
		err = errors.New("it has no TotalInstanceCount")
	}
	if left, ok := f.number("AvailableInstanceCount"); ok && left >= 0 && left <= total {
		r.Status.Available = pointer(int32(left))
	}
	r.Status.State = stateIn(f, "State", awsStates)
	if err == nil {
		err = gpusOf(&r, "", 0)
	}
	return checked(r, total, err)
}

// readGCP reads a reservation, or a future reservation, which calendar mode makes, too.
func readGCP(f *fields) (v1alpha1.Reservation, error) {
	if f.has("specificSkuProperties") || f.has("timeWindow") {
		return readFuture(f)
	}
	r, err := named(f)
	at := "specificReservation."
	r.Spec.InstanceType = last(f.text(at + "instanceProperties.machineType"))
	total, ok := f.number(at + "count")
	if !ok {
		err = errors.Join(err, errors.New("it has no specificReservation.count"))
	}
	if used, ok := f.number(at + "inUseCount"); ok && used >= 0 && used <= total {
		r.Status.Available = pointer(int32(min(total-used, 100_000)))
	}
	r.Spec.Match = v1alpha1.MatchOpen
	if required, _ := f.at("specificReservationRequired").(bool); required {
		r.Spec.Match = v1alpha1.MatchTargeted
	}
	r.Spec.Start = f.time("creationTimestamp") // it is paid for since then
	r.Spec.End = f.time("deleteAtTime")        // of those that a calendar or a future reservation made, too
	r.Status.State = stateIn(f, "status", gcpStates)
	model, count := accelerators(f, at+"instanceProperties.guestAccelerators")
	if err == nil {
		err = gpusOf(&r, model, count)
	}
	return checked(r, total, err)
}

// gcpStates are the states of `gcloud compute reservations list`.
var gcpStates = map[string]v1alpha1.ReservationState{
	"INVALID": v1alpha1.ReservationFailed, "READY": v1alpha1.ReservationActive, "UPDATING": v1alpha1.ReservationActive,
	"CREATING": v1alpha1.ReservationScheduled, "DELETING": v1alpha1.ReservationExpired,
}

// readFuture reads a future reservation. One that is fulfilled is left out: the reservations that came of it are printed themselves.
func readFuture(f *fields) (v1alpha1.Reservation, error) {
	r, err := named(f)
	at := "specificSkuProperties."
	r.Spec.InstanceType, r.Spec.Match = last(f.text(at+"instanceProperties.machineType")), v1alpha1.MatchTargeted
	r.Spec.Start, r.Spec.End = f.time("timeWindow.startTime"), f.time("timeWindow.endTime")
	if seconds, ok := f.number("timeWindow.duration.seconds"); ok && r.Spec.Start != nil && r.Spec.End == nil && seconds > 0 && seconds < longest {
		r.Spec.End = pointer(metav1.NewTime(r.Spec.Start.Add(time.Duration(seconds) * time.Second)))
	}
	total, ok := f.number(at + "totalCount")
	if !ok {
		err = errors.Join(err, errors.New("it has no specificSkuProperties.totalCount"))
	}
	switch f.text("status.procurementStatus") {
	case "FULFILLED":
		err = errors.New("it is fulfilled: import the reservations that came of it")
	case "DRAFTING":
		err = errors.New("it is a draft that nobody has submitted")
	case "CANCELLED", "DECLINED", "FAILED", "FAILED_PARTIALLY_FULFILLED":
		r.Status.State = v1alpha1.ReservationFailed
	default:
		r.Status.State = v1alpha1.ReservationScheduled
	}
	model, count := accelerators(f, at+"instanceProperties.guestAccelerators")
	if err == nil {
		err = gpusOf(&r, model, count)
	}
	return checked(r, total, err)
}

// longest is how many seconds a reservation lasts at most: ten years.
const longest = 10 * 366 * 24 * 3600

// named reads what all of Google's reservations have. They are zonal, so their zone is in their name.
func named(f *fields) (r v1alpha1.Reservation, err error) {
	name := f.text("name")
	r.Spec.Zone = last(f.text("zone"))
	r.Name = objectName(name + "." + r.Spec.Zone)
	r.Spec.ID = f.text("selfLink")
	if _, path, ok := strings.Cut(r.Spec.ID, "/projects/"); ok {
		r.Spec.ID = "projects/" + path
	}
	if r.Spec.ID == "" {
		r.Spec.ID = name
	}
	if name == "" {
		err = errors.New("it has no name")
	}
	return r, err
}

// accelerators are GPUs that are added to machines whose type has none.
func accelerators(f *fields, path string) (model string, count int64) {
	list, _ := f.at(path).([]any)
	for _, item := range list {
		g := &fields{tree: map[string]any{"g": item}, used: make(map[string]bool)}
		if n, ok := g.number("g.acceleratorCount"); ok {
			model, count = strings.TrimPrefix(last(g.text("g.acceleratorType")), "nvidia-"), count+n
		}
	}
	return model, count
}

// readAzure reads a capacity reservation of a group. AKS names zones LOCATION-NUMBER.
func readAzure(f *fields) (r v1alpha1.Reservation, err error) {
	f.lift("properties") // the command line prints them beside the name, the API below
	r.Spec.ID = f.text("id")
	name, group := f.text("name"), ""
	parts := strings.Split(r.Spec.ID, "/")
	for i := range len(parts) - 1 {
		if strings.EqualFold(parts[i], "capacityReservationGroups") {
			group = parts[i+1]
		}
	}
	r.Name = objectName(name)
	if group != "" {
		r.Name = objectName(group + "." + name)
	}
	r.Spec.InstanceType, r.Spec.Match = f.text("sku.name"), v1alpha1.MatchTargeted
	zones, _ := f.at("zones").([]any)
	if location := f.text("location"); len(zones) > 0 && location != "" {
		number, _ := zones[0].(string)
		r.Spec.Zone = location + "-" + number
	}
	r.Spec.Start, r.Spec.End = f.time("timeCreated"), f.time("scheduleProfile.end")
	if start := f.time("scheduleProfile.start"); start != nil { // of a block, or of one that is for later
		r.Spec.Start = start
	}
	total, ok := f.number("sku.capacity")
	if !ok {
		err = errors.New("it has no sku.capacity; a group alone does not say what it has: import az capacity reservation list")
	}
	planned := f.text("instanceView.reservationStateInfo.reservationState")
	if n, ok := f.number("instanceView.utilizationInfo.currentCapacity"); ok && planned == "PartiallyFulfilled" {
		total = min(total, n) // what was delivered of it
	}
	if list, ok := f.at("instanceView.utilizationInfo.virtualMachinesAllocated").([]any); ok && int64(len(list)) <= total {
		r.Status.Available = pointer(int32(total) - int32(len(list)))
	}
	switch f.text("provisioningState") {
	case "Failed", "Canceled":
		r.Status.State = v1alpha1.ReservationFailed
	case "Creating":
		r.Status.State = v1alpha1.ReservationScheduled
	case "Deleting":
		r.Status.State = v1alpha1.ReservationExpired
	default:
		r.Status.State = v1alpha1.ReservationActive
	}
	if state, ok := azureStates[planned]; ok && r.Status.State == v1alpha1.ReservationActive {
		r.Status.State = state
	}
	if err == nil {
		err = gpusOf(&r, "", 0)
	}
	return checked(r, total, err)
}

// azureStates are the states of reservations for later, in their instance view.
var azureStates = map[string]v1alpha1.ReservationState{
	"Pending": v1alpha1.ReservationScheduled, "Approved": v1alpha1.ReservationScheduled, "Committed": v1alpha1.ReservationScheduled,
	"Live": v1alpha1.ReservationActive, "PartiallyFulfilled": v1alpha1.ReservationActive,
	"Declined": v1alpha1.ReservationFailed, "FulfillmentFailed": v1alpha1.ReservationFailed,
}

func pointer[T any](v T) *T { return &v }
