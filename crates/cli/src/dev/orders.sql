-- The demo shop's own table: what a real application would call its business.
create table if not exists orders (
    id     integer primary key autoincrement,
    status text not null check (status in ('placed', 'paid', 'shipped'))
)
