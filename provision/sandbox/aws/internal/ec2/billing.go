package ec2

import "time"

// bill is one ended instance's time and price.
type bill struct {
	from, to time.Time
	rate     float64
}

// bill notes what an instance has cost that ends.
func (svc *Service) bill(i *instance) {
	svc.billed = append(svc.billed, bill{i.Launched, i.termination.at, i.rate})
}

// Spend is what all instances have cost until the given time, in dollars: by
// the second from launch to shutting-down, at least a minute each, as EC2 bills
// Linux. The price is that of the launch.
func (svc *Service) Spend(at time.Time) float64 {
	sum := 0.0
	for _, b := range svc.billed {
		sum += b.cost(at)
	}
	for _, i := range svc.instances {
		if i.State.alive() {
			sum += bill{i.Launched, at, i.rate}.cost(at)
		}
	}
	return sum
}

func (b bill) cost(at time.Time) float64 {
	if at.Before(b.from) {
		return 0
	}
	to := b.to
	if at.Before(to) {
		to = at
	}
	return b.rate / 3600 * max(to.Sub(b.from).Truncate(time.Second), time.Minute).Seconds()
}
