"""`dponectl ledger|gate|target|source …`: what a DBA installs. Every script can be printed instead of run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from airflow_provider_dpone.cli.context import configuration
from airflow_provider_dpone.composition import enrolment
from airflow_provider_dpone.composition.profile_folder import read_profile_folder
from airflow_provider_dpone.composition.services import free_ledger
from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import (
    AUTHORITY_CLASSES,
    PROFILE_CASES,
    AuthorityClass,
    GateReceipt,
)
from airflow_provider_dpone.drivers.mssql import connect as connect_mssql
from airflow_provider_dpone.gates import logon_gate
from airflow_provider_dpone.gates.postgres_seed import SEED_OWNER, SEEDER, SeedAuthority, seed_script
from airflow_provider_dpone.gates.postgres_source import SOURCE_ROLE, PostgresSource, access_script, accounts_script
from airflow_provider_dpone.gates.target_database import TargetDatabase, provision_script
from airflow_provider_dpone.ledger import GateReceiptStore, GateStanding, grants, group_install
from airflow_provider_dpone.ledger import install as installation
from airflow_provider_dpone.ledger.groups import GROUPS


@click.group()
def ledger() -> None:
    """The control ledger of one SQL Server instance."""


_AUTHORITY = click.option(
    "--authority",
    type=click.Choice(AUTHORITY_CLASSES),
    default="production",
    show_default=True,
    help="The class of authority, for good. Production stands on SQL Server only.",
)


_GROUPS = click.option(
    "--group",
    "groups",
    type=click.Choice(list(GROUPS)),
    multiple=True,
    help="Not the ledger, but this optional group of the ledger that is there; repeat for each, trust first.",
)


@ledger.command()
@_AUTHORITY
@_GROUPS
@click.pass_context
def render(context: click.Context, authority: AuthorityClass, groups: tuple[str, ...]) -> None:
    """Print the installation script, in batches that GO separates."""
    settings = configuration(context).ledger
    for name in groups:
        click.echo(group_install.render(settings, name))
    if not groups:
        click.echo(installation.render(settings, authority=authority))


@ledger.command("render-grants")
@click.option("--controller", required=True, help="Login that admits and finalizes.")
@click.option("--issuer", required=True, help="Login that creates the logins of attempts.")
@click.option("--closer", required=True, help="Login that closes them and observes that they are gone.")
@click.option(
    "--protect", "others", multiple=True, help="A login that issuer and closer must not alter; repeat for each."
)
@click.pass_context
def render_grants(context: click.Context, controller: str, issuer: str, closer: str, others: tuple[str, ...]) -> None:
    """Print what a sysadmin runs once in the control database: the rights of the standing accounts."""
    logins = grants.StandingLogins(controller=controller, issuer=issuer, closer=closer, others=others)
    click.echo(grants.script(configuration(context).ledger, logins))


@ledger.command("render-group-grants")
@click.argument("role", type=click.Choice(list(group_install.ROLES)))
@click.argument("login")
@click.pass_context
def render_group_grants(context: click.Context, role: str, login: str) -> None:
    """Print what a sysadmin runs once in the control database: the rights of a role of the optional groups."""
    click.echo(group_install.role_grants(configuration(context).ledger, role, login))


@ledger.command()
@_AUTHORITY
@_GROUPS
@click.pass_context
def install(context: click.Context, authority: AuthorityClass, groups: tuple[str, ...]) -> None:
    """Install into the empty control database, as the account of the role `installer`."""
    settings = configuration(context)
    dsn = settings.mssql("installer")
    for name in groups:
        group_install.apply(lambda: connect_mssql(dsn), settings.ledger, name)
        click.echo(f"installed the group {name} into the ledger {settings.ledger.service_id}")
    if groups:
        return
    installation.apply(lambda: connect_mssql(dsn), settings.ledger, authority=authority)
    click.echo(f"installed; service id {settings.ledger.service_id}, {authority} authority")


@ledger.command("record-profile")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.pass_context
def record_profile(context: click.Context, folder: Path) -> None:
    """Record a green gate profile, as the installer: FOLDER is what the profile's runner wrote."""
    receipt = read_profile_folder(folder)
    settings = configuration(context)
    dsn = settings.mssql("installer")
    standing = GateReceiptStore(lambda: connect_mssql(dsn), settings.ledger).record(receipt)
    click.echo(_receipt_line(standing, receipt))


@ledger.command()
@click.pass_context
def status(context: click.Context) -> None:
    """The class of authority, the server, and the recorded gate profiles with what each of them unlocks."""
    settings = configuration(context)
    dsn = settings.mssql("controller")
    standing = GateReceiptStore(lambda: connect_mssql(dsn), settings.ledger).standing()
    door = "open" if standing.unlocked_by else "shut: no recorded gate profile unlocks it here"
    click.echo(f"{settings.ledger.service_id}  {standing.authority} authority on {standing.server}  activation {door}")
    for receipt in standing.receipts:
        click.echo(f"    {_receipt_line(standing, receipt)}")


def _receipt_line(standing: GateStanding, receipt: GateReceipt) -> str:
    unlocked = standing.unlocked_class(receipt)
    return (
        f"{receipt.sha256}  gate profile {len(receipt.cases)} of {len(PROFILE_CASES['gate'])} on {receipt.engine}, "
        f"provider {receipt.product_version}: {'unlocks ' + unlocked if unlocked else 'unlocks nothing here'}"
    )


@ledger.command()
@click.pass_context
def unlock(context: click.Context) -> None:
    """End a session that holds the ledger's lock and has sent nothing for longer than anybody waits, as the closer."""
    ended = free_ledger(configuration(context).services())
    click.echo("no session stands still with the lock; nothing was ended" if ended is None else f"ended {ended}")


@ledger.command()
@click.pass_context
def audit(context: click.Context) -> None:
    """Verify every stored byte and the whole catalog."""
    settings = configuration(context)
    dsn = settings.mssql("controller")
    report = installation.audit(lambda: connect_mssql(dsn), settings.ledger)
    groups = group_install.audit(lambda: connect_mssql(dsn), settings.ledger)
    click.echo("The ledger is what was installed and written. Verified:")
    for name, count in (asdict(report) | asdict(groups)).items():
        counted = "not installed" if count is None else f"{count:,}"
        click.echo(f"    {name.replace('_', ' '):20} {counted}")


@ledger.group()
def enroll() -> None:
    """Record a domain that activations may own, by the identity that its server shows now."""


@enroll.command("mssql")
@click.argument("database")
@click.option("--writer-role", required=True)
@click.option("--schema", "schemas", multiple=True, required=True, help="A managed schema; repeat for each.")
@click.pass_context
def enroll_mssql(context: click.Context, database: str, writer_role: str, schemas: tuple[str, ...]) -> None:
    """Record a target database by the identity that the server shows now."""
    settings = configuration(context)
    dsn = settings.mssql("installer")
    domain = enrolment.enroll_mssql(
        lambda: connect_mssql(dsn), settings.ledger, database, writer_role=writer_role, managed_schemas=schemas
    )
    click.echo(domain.guard_id)


@enroll.command("clickhouse")
@click.argument("database")
@click.pass_context
def enroll_clickhouse(context: click.Context, database: str) -> None:
    """Record a ClickHouse database by the UUIDs that the server shows now."""
    settings = configuration(context)
    dsn = settings.mssql("installer")
    _, observer = settings.services().require_clickhouse()
    domain = enrolment.enroll_clickhouse(lambda: connect_mssql(dsn), settings.ledger, observer, database)
    click.echo(domain.guard_id)


@click.group()
def gate() -> None:
    """The server-wide LOGON barrier."""


@gate.command("render")
@click.option("--control-database", required=True)
@click.pass_context
def render_gate(context: click.Context, control_database: str) -> None:
    """Print the script that installs the barrier, in batches that GO separates."""
    click.echo(logon_gate.render(configuration(context).ledger, control_database))


@gate.command("verify")
@click.pass_context
def verify_gate(context: click.Context) -> None:
    """Compare the installed barrier with the rendered one, as the installer, and ask whether its reader can read."""
    settings = configuration(context)
    dsn = settings.mssql("installer")
    connection = connect_mssql(dsn)
    try:
        logon_gate.verify(connection, settings.ledger, dsn.database)
        if not logon_gate.reader_may_read(connection, settings.ledger):
            raise ConfigurationError(
                "logon_gate_reader",
                happened=f"{logon_gate.READER} cannot read the gate rows, so the barrier refuses every login of an attempt.",
                check="the GRANT of `dponectl gate render`, and who denied it.",
            )
    finally:
        connection.close()
    click.echo(f"the barrier of {dsn.database} is the rendered one, enabled, and its reader can read the gate rows")


@click.group()
def target() -> None:
    """A dedicated target database."""


@target.command("render")
@click.argument("database")
@click.option("--writer-role", default="dpone_writer", show_default=True)
@click.option("--schema", "schemas", multiple=True, required=True, help="A managed schema; repeat for each.")
@click.option("--controller", required=True, help="Login of the controller; it will own the database.")
@click.option("--issuer", required=True, help="Login that creates the logins of attempts.")
@click.option("--outcome-reader", required=True, help="Login that observes outcomes.")
@click.option("--source-reader", help="Login that reads published schemas.")
@click.option("--published", multiple=True, help="A schema that the source reader reads; repeat for each.")
def render_target(
    database: str,
    writer_role: str,
    schemas: tuple[str, ...],
    controller: str,
    issuer: str,
    outcome_reader: str,
    source_reader: str | None,
    published: tuple[str, ...],
) -> None:
    """Print what a DBA runs once in the target database, in batches that GO separates."""
    click.echo(
        provision_script(
            TargetDatabase(
                database=database,
                writer_role=writer_role,
                managed_schemas=schemas,
                controller=controller,
                issuer=issuer,
                outcome_reader=outcome_reader,
                source_reader=source_reader,
                published_schemas=published,
            )
        )
    )


@click.group()
def source() -> None:
    """A PostgreSQL source database."""


@source.command("render")
@click.argument("database")
@click.option("--table", "tables", multiple=True, nargs=2, required=True, help="Schema and name; repeat for each.")
@click.option("--issuer", required=True, help="Role that makes and closes the roles of attempts.")
@click.option("--observer", required=True, help="Role that sees every session.")
@click.option("--source-role", default=SOURCE_ROLE, show_default=True, help="Role that holds what attempts may read.")
@click.option("--accounts/--no-accounts", default=True, help="With the roles themselves, made once a server.")
def render_source(
    database: str,
    tables: tuple[tuple[str, str], ...],
    issuer: str,
    observer: str,
    source_role: str,
    accounts: bool,
) -> None:
    """Print what a superuser runs once in the source database. Passwords of the two accounts are set afterwards."""
    given = PostgresSource(database=database, tables=tables, issuer=issuer, observer=observer, source_role=source_role)
    click.echo((accounts_script(given) + "\n" if accounts else "") + access_script(given))


@source.command("render-seed")
@click.argument("database")
@click.option(
    "--schema", "schemas", multiple=True, required=True, help="Where fixtures may be seeded; repeat for each."
)
@click.option("--issuer", required=True, help="Role that makes and closes the roles of attempts.")
@click.option("--observer", required=True, help="Role that sees every session, and reads what is sealed.")
@click.option("--source-role", default=SOURCE_ROLE, show_default=True, help="Role that holds what attempts may read.")
@click.option("--owner", default=SEED_OWNER, show_default=True, help="Role to make, which owns what is seeded.")
@click.option("--seeder", default=SEEDER, show_default=True, help="Role to make, which may call the routine.")
def render_seed(
    database: str, schemas: tuple[str, ...], issuer: str, observer: str, source_role: str, owner: str, seeder: str
) -> None:
    """Print what a superuser runs once in a source database whose fixtures are seeded: the guarded seed routine."""
    authority = SeedAuthority(issuer=issuer, observer=observer, owner=owner, seeder=seeder)
    click.echo(seed_script(authority, database, schemas, source_role))
