// Package policy decides as AWS IAM does whether a request is allowed. It plays
// this part of IAM, and says so of a document that asks for more:
//
//   - policies that are attached to an identity, of version 2012-10-17, and one
//     permissions boundary, which what they allow must allow, too;
//   - Effect, Sid, Action and NotAction, Resource and NotResource with the
//     wildcards * and ?; in an ARN no wildcard reaches beyond its own one of the
//     first five parts, and the sixth is matched as a whole;
//   - Condition with StringEquals, StringLike, ArnEquals, ArnLike, their
//     negations (StringNotEquals and so on), Bool and Null; with IfExists, and
//     with ForAllValues: and ForAnyValue:;
//   - names of actions and of condition keys in any case, all else as written.
//
// It refuses everything else when it parses: policies of resources (Principal),
// policy variables, other operators, other versions, fields that IAM does not
// know, JSON that names a key twice. So nothing is ever allowed because it was
// not understood. It knows no service: what a call asks of IAM is the caller's
// to say. Not played are policies of organisations and of sessions, policies of
// resources, and tags of principals. Start reading at Evaluate.
package policy
