package sqs

import "testing"

func FuzzQueuePolicy(f *testing.F) {
	f.Add(InterruptionPolicy("arn:aws:sqs:us-east-1:000000000000:q"))
	f.Add(`{"Statement":{"Effect":"Deny","Principal":{"AWS":["*"]},"Action":"*","Resource":"*","Condition":{"Null":{"a":["true"]}}}}`)
	f.Add(`{"Statement":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseQueuePolicy(text)
		if err != nil {
			return
		}
		if len(p.Statement) == 0 {
			t.Errorf("%q says nothing and was taken", text)
		}
		denied := true
		for _, s := range p.Statement {
			denied = denied && s.Effect == "Deny"
		}
		if p.allows(sending{service: "events.amazonaws.com", queue: "arn:q"}) && denied {
			t.Errorf("%q only denies, and allows", text)
		}
	})
}
